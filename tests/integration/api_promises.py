"""Requests by schemathesis to one operation of the local API, from its description: boundaries, examples, random ones.

The tests of schemathesis's own pytest plugin bear one id for all operations (with pytest 9.2), and of these a worker of
xdist runs the first alone. So each operation's test is built here, as the plugin builds it.
"""

from __future__ import annotations

from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import positive_data_acceptance

from covey.app.api.operations import _FOLLOW_S_MAX

_FRAMING = {"connection", "content-encoding", "content-length", "expect", "host", "transfer-encoding", "upgrade"}
"""Headers that frame a request: no description names them. Hypothesis takes some of the names that it makes up from the
texts in the sources that are loaded, which differ from worker to worker."""


@schemathesis.serializer("application/x-ndjson", "application/senml+cbor")
def _bytes(_: object, value: object) -> bytes:
    """Send what schemathesis has no words for as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _goes_on(said: object) -> bool:
    """Say whether an agent takes this for how long to follow, in whatever form it comes."""
    text = str(said[0] if isinstance(said, list) and len(said) == 1 else said)
    return text.isascii() and text.isdigit() and int(text) <= _FOLLOW_S_MAX


def try_promises(description: dict[str, Any], method: str, path: str, session: requests.Session, count: int) -> None:
    """Send so many requests to an operation, as its description allows and as it does not; check each answer."""

    @seeded(7)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def test(case: Any) -> None:
        for name in [each for each in case.headers if each.lower() in _FRAMING]:
            del case.headers[name]
        says = _goes_on(case.query.get("follow"))
        follows = {"/v1/inbox": says, "/v1/events": says or "follow" not in case.query}
        follows["/v1/content/{ref}/fetch"] = follows["/v1/events"]
        if follows.get(case.path):
            case.query["follow"] = 0  # or the test would follow for up to a day
        # A schema can say neither which text is a reading nor which groups there are, and whose, nor which files.
        names = case.method == "POST" or case.path in {"/v1/history", "/v1/events", "/v1/own", "/v1/content"}
        names |= case.path.startswith("/v1/content/")
        excluded: list[Any] = [positive_data_acceptance] if names else []
        if case.path == "/v1/ephemeral":
            excluded.append(not_a_server_error)  # it promises a 503 where no relay is reached, as here
        case.call_and_validate(base_url="http://covey", session=session, excluded_checks=excluded)

    load_all_checks()
    schema = schemathesis.openapi.from_dict(description)
    build_operation_test(
        config=schema.config,
        operation=schema[path][method.upper()],
        test_func=test,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()
