"""Trace tests: stories about the protocol in text files, run on the shipped code.

``tests/traces/*.txt`` hold the stories and ``docs/trace-tests.md`` describes their language. The
modules, from the file down to the machines:

* `files`: blocks of comments, commands, ``----`` and expected output; comparing, rewriting;
* `language`: the commands; `words` parses their words;
* `world`: named endpoints (each a shell of `farref.world`), and the messages between them;
* `links`: the same over `Channel` packets, with a virtual clock;
* `show`: effects, messages and tables as text, with runs of equal lines summarized;
* `reasons`: why a command had no effect, read from the machines' state.
"""
