"""Orders for this board. docs/protocol/boards.md, section 18, "Orders". Loaded for each order, then unloaded.

1. An order is an operation of the group's history, as its author signed it. It counts if the author is an operator that
   enrolment pinned, and if as many of those as required have signed it or an approval of it.
2. It is for this board if it names the board's key; it is read completely before anything is done.
3. Each once-id is processed once: the last few results are kept, and of earlier orders the greatest height by author.
   So a repetition, from any source, has no second effect.
4. The start of an action is on flash before the action. One that had started at a power cut is `unknown`, unless its
   owner says that running twice is as good as once; then it runs again, three times at most.
5. If the stored results cannot be read, all is `unknown`, and nothing is done until the board is enrolled again.
6. The result is signed. An order for others leaves nothing on flash.
7. Of settings the last order for a key holds, by height, then id (`setting_orders.py`).
8. Each form of an order is freed once the next one exists: it may have 2 KiB, and a heap some 10.
"""

import gc
import sys

try:
    from covey_boards.shared import cbor, line_orders, messages
    from covey_boards.shared import tweetnacl as nacl

    from . import blake2b
except ImportError:
    import cbor
    import line_orders
    import messages
    import tweetnacl as nacl

    blake2b = None
try:
    from micropython import const
except ImportError:
    const = int

FILE = "orders.cbor"
_FILE_BYTES_MAX = const(6_144)
_KEPT = const(8)  # orders whose results are kept; each is some 200 bytes
_SET = const(8)  # keys that were set; a board has four
_OUTPUT_BYTES_MAX = const(256)
_WHY_MAX = const(120)  # characters, and half of the bytes
_TRIES = const(3)
_SETTING, _COMMAND, _APPROVAL = const(5), const(6), const(7)
_DONE, _REFUSED, _UNKNOWN = const(2), const(4), const(5)
_DOMAIN = b"covey/1 operation\0"
_ID_DOMAIN = b"covey/1 op id"
_RESULT_DOMAIN = b"covey/1 board result\0"
_OPERATION = (
    (1, 1), 32, 32, 8, cbor.UINT, object, list, cbor.UINT, 32, cbor.UINT, (0, 255), bytes
)  # fmt: skip


def name_of(raw):
    """Return the id of an operation."""
    module = blake2b or __import__("blake2b")
    sys.modules.pop("blake2b", None)
    return module.blake2b_256(raw, _ID_DOMAIN)


def obey(board, storage, settings, clock, raws, now_us, order=None):
    """Deal with an order and what others have signed of it; return its result and the board's signature of that.

    Args:
        board, storage, settings: `core.Core` and what it has; no settings where nothing measures.
        clock: (microseconds since 1970 as far as the board knows, whether that can be believed).
        raws: the order's bytes, then those of approvals of it; a list, which is empty afterwards.
        order: its id, where that is known.

    Raises:
        WireError: it is none.
    """
    if order is None:
        order = name_of(raws[0])
        gc.collect()
    fields = _operation(raws)
    enough = _is_signed(order, fields[2], raws, storage)
    return OrderTaking(board, storage, settings, clock, now_us).take(order, fields, enough)


def refuse(board, storage, clock, order):
    """Return (result, signature) that no heap has room for an order, by its id; other arguments as `obey` has them."""
    taking = OrderTaking(board, storage, None, clock, 0)
    state, refused = _REFUSED, Refused("action_not_started", "this board's heap has no room for it")
    if [entry for entry in taking._kept if entry[0] == order and entry[4]]:
        state, refused = _UNKNOWN, Refused("action_went_down", "this board's heap ended while it was being done")
    return taking.signed(taking._result(order, state, refused))


class Refused(Exception):
    """An order is not followed: a code for programs, and why, for people."""


def _operation(raws):
    """Take the first of some operations, and return its fields, once its author's signature holds.

    Raises:
        WireError: it is none.
    """
    signature, signed = cbor.record(cbor.decode(raws.pop(0), messages.MESSAGE_BYTES_MAX), 64, bytes)
    signed = _DOMAIN + signed
    reader = cbor.Reader(signed)
    size = reader.take(len(_DOMAIN) + 1)[-1]
    if size not in (0x8C, 0x8D):  # twelve fields, and perhaps an extension map
        raise cbor.WireError("malformed")
    fields = [reader.item(1) for _ in range(3)]
    author = cbor.record(fields, (1, 1), 32, 32)[2]
    try:
        nacl.crypto_sign_verify_detached(signature, signed, author)
    except nacl.CryptoError:
        raise cbor.WireError("signature")
    fields += [reader.item(1) for _ in range(size - 0x83)]
    if reader.place != len(signed):
        raise cbor.WireError("malformed")
    return cbor.record(fields, *_OPERATION)


def _is_signed(order, author, approvals, storage):
    """Rule 1."""
    threshold, pinned = line_orders.read_pinned(storage)
    signers = {author}
    while approvals:
        fields = _operation(approvals)
        if fields[10] == _APPROVAL and fields[11] == cbor.encode([order]) and fields[2] in pinned:
            signers.add(fields[2])
    return author in pinned and len(signers) >= threshold


def _command(body):
    """Return (keys, action, arguments, once, deadline or None) of a command's body.

    Raises:
        Refused: it has secrets, or is a part of a release.
        WireError: malformed.
    """
    reader = cbor.Reader(body)
    waves = reader.take(1)[0] == 0x87
    selector, action = reader.item(1), reader.item(1)
    arguments = {}
    for _ in range(reader.take(1)[0] - 0xA0):
        name = reader.item(1)
        arguments[name] = reader.item(1)
    once, deadline, sealed = reader.item(1), reader.item(1), reader.item(1)
    if waves or sealed is not None:
        raise Refused("action_sealed" if sealed else "action_arguments", "a board takes neither secrets nor waves")
    if reader.place != len(body) or not isinstance(once, bytes) or len(once) != 16:
        raise cbor.WireError("malformed")
    return cbor.record(selector, (3, 3), list)[1], action, arguments, once, deadline


def _setting(body):
    """Return (selector, key, value, secret) of a setting's body."""
    return cbor.record(cbor.decode(body, len(body)), list, str, object, object)


def _actions():
    """Return what the board's owner lets operators have done, and which of it may be done twice."""
    try:
        import my_actions
    except ImportError:
        return {}, ()
    return my_actions.ACTIONS, getattr(my_actions, "REPEATABLE", ())


class OrderTaking:
    """What is kept of orders; arguments as `obey` has them."""

    def __init__(self, board, storage, settings, clock, now_us):
        self._board, self._storage, self._settings, self._clock = board, storage, settings, clock
        self._now_us, self._identity = now_us, board.identity
        self._floors, self._kept = [], []  # [author, height]; [order, once, author, height, tries, body or b""]
        self._set = []  # [key, height, order, body]: what was set last
        self._readable = True
        raw = storage.read(FILE)
        if raw:
            try:
                fields = cbor.record(cbor.decode(raw, _FILE_BYTES_MAX), (1, 1), list, list, list)
                self._floors, self._kept, self._set = fields[1:]
            except cbor.WireError:
                self._readable = False

    def take(self, order, fields, enough):
        """Return the result of an order, and the board's signature of it; `enough` have signed it, or not."""
        body = self._found(order)
        if not body:
            body = self._judged(order, fields, enough)
        return self.signed(body)

    def signed(self, body):
        """Return a result, and the board's signature of it."""
        return body, nacl.crypto_sign_detached(_RESULT_DOMAIN + body, self._identity.signing_secret)

    def _found(self, order):
        for entry in self._kept:
            if entry[0] == order:
                return entry[5]
        for entry in self._set:
            if entry[2] == order:
                return entry[3]
        return None

    def _judged(self, order, fields, enough):
        author, height = fields[2], fields[7]
        try:
            if not enough:
                raise Refused("action_revoked", "it is not signed by enough of the operators that this board has pinned")
            if fields[10] == _SETTING:
                return self._let_hold(order, height, fields[11])
            if fields[10] != _COMMAND:
                raise cbor.WireError("malformed")
            keys, name, arguments, once, deadline = _command(fields.pop())
            if self._identity.signing_public not in keys:
                raise cbor.WireError("not_for_us")
        except Refused as refused:
            key = _setting(fields[11])[1] if fields[10] == _SETTING else None
            return self._result(order, _REFUSED, refused, None, b"", key)
        entry = [order, once, author, height, 0, b""]
        for each in self._kept:
            if each[0] == order:
                entry = each
        try:
            self._check_new(entry)
            action, twice = self._allowed(name, entry, deadline)
        except Refused as refused:
            state = _UNKNOWN if refused.args[0] in ("action_went_down", "action_records_lost") else _REFUSED
            if refused.args[0] != "action_records_lost" and not self._is_below(entry):  # else a known one would go for it
                self._keep(entry, self._result(order, state, refused))
                return entry[5]
            return self._result(order, state, refused)
        return self._do(entry, action, arguments)

    def _let_hold(self, order, height, body):
        """Let a setting hold, unless a later order for its key does."""
        selector, key, value, sealed = _setting(body)
        if self._identity.signing_public not in cbor.record(selector, (3, 3), list)[1]:
            raise cbor.WireError("not_for_us")
        wrong = None
        if not self._readable:
            wrong = "action_records_lost", "this board has lost its record of what ran"
        elif sealed is not None:
            wrong = "setting_not_secret", "a board reads no secrets"
        for each in self._set:
            if each[0] == key and (each[1], each[2]) > (height, order):
                wrong = "setting_overridden", "a later order for it was here before"
        if wrong is None:
            try:
                from .setting_orders import let_hold
            except ImportError:
                from setting_orders import let_hold

                for name in ("setting_orders", "opening", "wiring"):
                    sys.modules.pop(name, None)
            try:
                wrong = let_hold(self._board, self._storage, self._settings, key, value)
            except MemoryError:
                wrong = "setting_value", "no heap for it"
            state = _DONE if wrong is None else _REFUSED
            body = self._result(order, state, wrong and Refused(*wrong), None if wrong else 0, b"", key)
            self._set = [each for each in self._set if each[0] != key][-_SET + 1 :] + [[key, height, order, body]]
            self._store()
            return body
        return self._result(order, _REFUSED, Refused(*wrong), None, b"", key)

    def _check_new(self, entry):
        """Rules 3 to 5."""
        if not self._readable:
            raise Refused("action_records_lost", "this board has lost its record of what ran")
        twins = [each for each in self._kept if each[1] == entry[1] and each is not entry]
        if twins or self._is_below(entry):
            raise Refused("action_repeated", "this board has dealt with it, or with a later order of its author")

    def _is_below(self, entry):
        """Say whether an order is not kept, and stands no higher than what was."""
        below = [each for each in self._floors if each[0] == entry[2] and each[1] >= entry[3]]
        return below and entry not in self._kept

    def _allowed(self, name, entry, deadline):
        actions, repeatable = _actions()
        tries = entry[4]
        if tries and (name not in repeatable or tries >= _TRIES):
            raise Refused("action_went_down", "this board went down while it was being done")
        if name not in actions:
            raise Refused("action_not_defined", "the board's my_actions.py lists no such action")
        wall_us, synchronised = self._clock
        if deadline is not None and not tries:
            if not synchronised:
                raise Refused("action_clock", "it has a deadline, and this board does not know what time it is")
            if wall_us > deadline:
                raise Refused("action_late", "its deadline had passed when its turn came")
        return actions[name], name in repeatable

    def _do(self, entry, action, arguments):
        """Rule 4."""
        entry[4] += 1
        self._keep(entry, b"")
        ended, output = 0, None
        if action is not None:
            try:
                output = action(**arguments)
            except Exception as error:  # the owner's code
                ended, output = 1, "%s (%s)" % (type(error).__name__, error)
        if output is None:
            output = b""
        elif not isinstance(output, bytes):
            output = str(output).encode()
        self._keep(entry, self._result(entry[0], _DONE, None, ended, output))
        if action is None:
            self._board.restart(self._now_us)
        return entry[5]

    def _result(self, order, state, refused, ended=None, output=b"", key=None):
        code, why = refused.args if refused else ("", "")
        wall_us, synchronised = self._clock
        cut = len(output) > _OUTPUT_BYTES_MAX
        began = wall_us if state == _DONE else None
        fields = [order, state, ended, output[:_OUTPUT_BYTES_MAX], cut, wall_us, began, wall_us, synchronised]
        why = why[:_WHY_MAX]
        while len(why.encode()) > 2 * _WHY_MAX:
            why = why[:-1]
        return cbor.encode(fields + [code, why] + ([key] if key else []))

    def _keep(self, entry, body):
        """Put what is known of an order onto flash."""
        entry[5] = body
        if entry not in self._kept:
            self._kept.append(entry)
        while len(self._kept) > _KEPT:
            _, _, author, height, _, _ = self._kept.pop(0)
            height = max([height] + [each[1] for each in self._floors if each[0] == author])
            self._floors = [each for each in self._floors if each[0] != author] + [[author, height]]
        self._store()

    def _store(self):
        self._storage.write(FILE, cbor.encode([1, self._floors, self._kept, self._set]))
