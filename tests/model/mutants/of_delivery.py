"""Rules of delivery: numbers, the window, acknowledgements, retransmission."""

from farref.protocol.credit import Credit
from farref.protocol.delivery import Channel

from .mutant import Mutant


def _channel(name: str, method: str, old: str, new: str = "pass") -> Mutant:
    return Mutant(name, Channel, method, old, new)


DELIVERY = {
    "a full window": (
        _channel("overfills the window", "packet", "min(free, len(unsent))", "len(unsent)"),
    ),
    "one loss": (
        _channel("sets no alarm", "packet", "if self.retry_at is None:", "if False:"),
        _channel("puts off its alarm", "packet", "if self.retry_at is None:", "if True:"),
        _channel(
            "hands over what came before",
            "_put_in_order",
            "if number == self.handed:",
            "if number <= self.handed:",
        ),
        _channel("keeps what came before", "_put_in_order", "elif number > self.handed:", "else:"),
        _channel(
            "acknowledges only what is new",
            "receive",
            "elif messages and",
            "elif handed and",
        ),
        _channel("acknowledges nothing", "receive", "self.acknowledge_at = now + ACK_DELAY"),
        _channel(
            "believes late acknowledgements",
            "receive",
            "if new > 0:",
            "if True:",
        ),
        _channel(
            "forgets everything",
            "receive",
            "range(new)",
            "range(len(flight))",
        ),
        _channel("rests too soon", "receive", "now + self._pause if flight else None", "None"),
        _channel("stays slow", "receive", "self._pause = FIRST_RETRY"),
        _channel("does not back off", "tick", "min(2 * self._pause, LAST_RETRY)", "self._pause"),
        _channel(
            "backs off for ever", "tick", "min(2 * self._pause, LAST_RETRY)", "2 * self._pause"
        ),
        _channel(
            "sends again only once",
            "tick",
            "self.retry_at = now + self._pause",
            "self.retry_at = None",
        ),
        _channel("sends again without end", "tick", "self.retry_at = now + self._pause"),
        _channel(
            "sends again under new numbers",
            "packet",
            "batch = tuple(again)",
            "batch = tuple(again); self._next += len(batch)",
        ),
    ),
    "a perfect link": (
        _channel("does not keep what it sends", "packet", "self.flight.extend(batch)"),
        _channel(
            "hands over what is ahead",
            "_put_in_order",
            "if number == self.handed:",
            "if number >= self.handed:",
        ),
        _channel("forgets what is ahead", "_put_in_order", "self._ahead[number] = message"),
        _channel(
            "does not look at what waited",
            "_put_in_order",
            "while self.handed in self._ahead:",
            "while False:",
        ),
        _channel(
            "keeps what waited",
            "_put_in_order",
            "self._ahead.pop(self.handed)",
            "self._ahead[self.handed]",
        ),
        _channel(
            "takes the short way past what is missing",
            "receive",
            "first == self.handed and not self._ahead",
            "not self._ahead",
        ),
        _channel(
            "takes the short way past what waits",
            "receive",
            "first == self.handed and not self._ahead",
            "first == self.handed",
        ),
        _channel(
            "never hurries to acknowledge",
            "receive",
            "if self.handed - self._told >= WINDOW // 4:",
            "if False:",
        ),
        _channel("acknowledges acknowledgements", "receive", "elif messages and", "elif"),
        _channel(
            "ignores acknowledgements",
            "receive",
            "if new > 0:",
            "if False:",
        ),
        _channel("forgets nothing", "receive", "flight.popleft()"),
        _channel("never rests", "receive", "if flight else None", ""),
        _channel(
            "never acknowledges alone",
            "tick",
            "self.acknowledge_at is not None and now >= self.acknowledge_at",
            "False",
        ),
        _channel("acknowledges twice", "packet", "self.acknowledge_at = None"),
        _channel(
            "tells what it told before",
            "packet",
            "batch, self.handed",
            "batch, self._told - 1",
        ),
    ),
    "loss and repetition": (
        _channel(
            "puts off its acknowledgement",
            "receive",
            "elif messages and self.acknowledge_at is None:",
            "elif messages:",
        ),
    ),
    "many losses": (
        _channel(
            "sends again only the latest", "tick", "now, self.flight", "now, [self.flight[-1]]"
        ),
        _channel("does not remember what it told", "packet", "self._told = self.handed"),
    ),
    "control passes what waits": (
        _channel(
            "sends without room",
            "send",
            "if credit.messages >= WINDOW or credit.bytes >= credit.most:",
            "if False:",
        ),
        _channel("sends all at once", "_given", "credit.bytes < credit.most:\n", "True:\n"),
        _channel("is never full", "_asked", "if flow not in full():", "if True:"),
        Mutant("does not count what has waited", Credit, "left", "self.bytes += size"),
    ),
    "no more than there is room for": (
        _channel("asks for no room", "_ask", "self.unsent.append(CreditAsked(flow=flow))"),
        _channel(
            "never remembers that it asked", "_ask", "credit.asked = credit.messages, credit.bytes"
        ),
        _channel("asks for room once", "_given", "self._ask(flow, credit)"),
        _channel(
            "keeps what there is room for", "_given", "while credit.waiting and", "while False and"
        ),
        _channel("is full for ever", "_asked", "self.owed = (*self.owed, flow)"),
        _channel("gives no room", "give", "self.unsent.append(CreditGiven(flow=flow))"),
        Mutant("does not take off what it was given", Credit, "given", "self.bytes -= size"),
        Mutant(
            "lets the last one go first",
            Credit,
            "next",
            "self.waiting.popleft()",
            "self.waiting.pop()",
        ),
    ),
}
