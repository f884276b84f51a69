from farref.protocol.messages import KINDS
from farref.trace.kinds import LOOKS


def test_each_kind_of_message_has_its_words() -> None:
    assert LOOKS.keys() == {kind.__name__ for kind in KINDS}


def test_each_form_names_fields_of_its_message() -> None:
    for kind in KINDS:
        fields = dict.fromkeys((*kind.__struct_fields__, "before"), "x")
        for form in LOOKS[kind.__name__].forms:
            assert form.format_map(fields)
