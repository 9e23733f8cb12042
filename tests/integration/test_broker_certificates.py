"""mosquitto with TLS client certificates, issued by a real fleet CA: who is let in, as whom, and until when."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from broker_conf.mosquitto import Broker
from covey.adapters.broker import own_relay
from covey.adapters.broker.fleet_ca import FleetCa
from covey.adapters.mqtt.relay import MqttRelay
from covey.adapters.mqtt.settings import ClientCertificate
from covey.adapters.mqtt.tls import tls_context
from covey.errors import ConfigurationError, RelayError
from covey.ports import RelayDown
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.integration.mqtt_client import Client
from tests.integration.relay_client import RelayClient
from tests.waiting import GUARD_S

pytestmark = pytest.mark.broker

_CONFIGURATIONS = Path(__file__).parents[2] / "broker_conf" / "mosquitto"


@pytest.fixture
def ca(tmp_path: Path) -> FleetCa:
    """A fleet CA of its own."""
    return FleetCa.create(tmp_path / "ca")


@pytest.fixture
def server(tmp_path: Path) -> tuple[Path, Path]:
    """The relay's own certificate and key."""
    return make_certificate(tmp_path / "server", -1, 10)


@pytest.fixture
def strict(tmp_path: Path, ca: FleetCa, server: tuple[Path, Path]) -> Iterator[Broker]:
    """A broker that asks for certificates."""
    with Broker(tmp_path / "strict", certificate=server, fleet_ca=ca.folder) as broker:
        yield broker


@pytest.fixture
def enrol(tmp_path: Path, ca: FleetCa) -> Callable[..., tuple[str, ClientCertificate]]:
    """Issue certificates; return the user name and the file."""

    def make(authority: FleetCa = ca, user_name: str | None = None) -> tuple[str, ClientCertificate]:
        name = user_name or secrets.token_hex(16)
        bundle = tmp_path / f"{secrets.token_hex(4)}.pem"
        bundle.touch(mode=0o600)
        bundle.write_text(authority.mint(name))
        return name, ClientCertificate(bundle)

    return make


@pytest.fixture
def connect(strict: Broker, server: tuple[Path, Path]) -> Iterator[Callable[..., Client]]:
    """Connect clients that name themselves as they like; they are closed at the end."""
    made: list[Client] = []

    def make(certificate: ClientCertificate, client_id: str = "", username: str | None = None) -> Client:
        made.append(Client(strict, client_id, username, "", tls_context(server[0], certificate)))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def new_relay_client(strict: Broker, server: tuple[Path, Path]) -> Iterator[Callable[..., RelayClient]]:
    """Make devices of the agent's own kind, with a certificate and without a password."""
    made: list[RelayClient] = []

    def make(username: str, certificate: ClientCertificate | None) -> RelayClient:
        made.append(RelayClient(strict, username=username, password="", client=certificate, ca_file=server[0]))
        return made[-1]

    yield make
    for device in made:
        device.relay.stop()


Enrol = Callable[..., tuple[str, ClientCertificate]]
NewRelayClient = Callable[..., RelayClient]


def _says(words: str) -> Callable[[RelayDown], bool]:
    return lambda down: words in down.reason


def test_devices_reach_each_other_by_certificate(enrol: Enrol, new_relay_client: NewRelayClient) -> None:
    sender, recipient = new_relay_client(*enrol()).up(), new_relay_client(*enrol()).up()
    sender.send(recipient, b"hello")
    assert recipient.receive() == b"hello"


def test_a_certificate_need_not_be_on_the_disk(ca: FleetCa, new_relay_client: NewRelayClient) -> None:
    """A newcomer has that of its invite in memory alone, until it is let in."""
    name = secrets.token_hex(16)
    certificate = ClientCertificate(Path("nowhere.pem"), None, ca.mint(name).encode())
    new_relay_client(name, certificate).up()


def test_only_certificates_of_this_authority_come_in(
    tmp_path: Path, enrol: Enrol, new_relay_client: NewRelayClient
) -> None:
    name, _ = enrol()
    _, foreign = enrol(FleetCa.create(tmp_path / "other"), name)
    for certificate, words in ((None, "certificate required"), (foreign, "unknown ca")):
        new_relay_client(name, certificate).start().wait_for(RelayDown, _says(words))


def test_a_device_s_certificate_signs_no_other(tmp_path: Path, enrol: Enrol, new_relay_client: NewRelayClient) -> None:
    victim, _ = enrol()
    _, own = enrol()
    chain = own.certificate_file.read_bytes()
    key = serialization.load_pem_private_key(chain, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    forger = FleetCa(tmp_path / "ca", x509.load_pem_x509_certificate(chain), key)
    forged = tmp_path / "forged.pem"
    forged.touch(mode=0o600)
    forged.write_bytes(forger.mint(victim).encode() + chain[chain.index(b"-----BEGIN CERTIFICATE") :])
    assert new_relay_client(victim, ClientCertificate(forged)).start().wait_for(RelayDown).reason


def test_one_identity_passes_for_no_other(
    enrol: Enrol, new_relay_client: NewRelayClient, connect: Callable[..., Client]
) -> None:
    (name, certificate), (thief_name, thief_certificate) = enrol(), enrol()
    victim, sender = new_relay_client(name, certificate).up(), new_relay_client(*enrol()).up()
    victim.relay.stop()
    sender.send(victim, b"queued while away")
    thief = connect(thief_certificate, client_id=name, username=name)
    assert thief.accepted.value == 0  # as itself
    thief.subscribe(f"covey/1/in/{name}")
    thief.subscribe(f"covey/1/in/{thief_name}")
    victim.relay = new_relay_client(name, certificate).relay
    assert victim.start().receive() == b"queued while away"
    assert thief.publish(f"covey/1/in/{thief_name}", b"sentinel") == "Success"
    assert thief.next_message() == (f"covey/1/in/{thief_name}", b"sentinel")
    assert thief.disconnects.empty()


def test_a_removed_device_does_not_come_back(
    ca: FleetCa, strict: Broker, enrol: Enrol, new_relay_client: NewRelayClient
) -> None:
    (name, certificate), (other, other_certificate) = enrol(), enrol()
    removed, stays = new_relay_client(name, certificate).up(), new_relay_client(other, other_certificate).up()
    assert ca.remove(name)
    assert not ca.remove(name)
    strict.reload()
    removed.relay.stop()  # a CRL ends no connection that lives
    new_relay_client(name, certificate).start().wait_for(RelayDown, _says("certificate revoked"))
    new_relay_client(*enrol()).up()
    stays.send(stays, b"undisturbed")
    assert stays.receive() == b"undisturbed"


def test_a_restart_ends_what_a_removed_device_still_has(
    ca: FleetCa, strict: Broker, enrol: Enrol, new_relay_client: NewRelayClient
) -> None:
    name, certificate = enrol()
    device = new_relay_client(name, certificate).up()
    ca.remove(name)
    strict.restart()
    device.wait_for(RelayDown, _says("certificate revoked"))


def test_both_configurations_promise_the_same() -> None:
    texts = [(_CONFIGURATIONS / name).read_text() for name in ("mosquitto.conf", "mosquitto-certificates.conf")]
    first, second = (text[text.index("# --- What it may cost") :] for text in texts)
    assert first == second


def test_a_key_that_others_may_read(enrol: Enrol, strict: Broker) -> None:
    name, certificate = enrol()
    certificate.certificate_file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="open to other users"):
        MqttRelay("test", strict.url, name, "", "inbox", client=certificate)


def test_a_certificate_of_another_key(enrol: Enrol, strict: Broker) -> None:
    (name, one), (_, two) = enrol(), enrol()
    with pytest.raises(ConfigurationError, match="not a certificate and its"):
        MqttRelay("t", strict.url, name, "", "i", client=ClientCertificate(one.certificate_file, two.certificate_file))


def test_a_sealed_key_is_not_asked_for(tmp_path: Path, enrol: Enrol, strict: Broker) -> None:
    name, certificate = enrol()
    key = serialization.load_pem_private_key(certificate.certificate_file.read_bytes(), None)
    sealed = tmp_path / "sealed.key"
    sealed.touch(mode=0o600)
    sealed.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    with pytest.raises(ConfigurationError, match="unencrypted private key"):
        MqttRelay("t", strict.url, name, "", "i", client=ClientCertificate(certificate.certificate_file, sealed))


def test_the_command_line_all_the_way(tmp_path: Path, ca: FleetCa, server: tuple[Path, Path], strict: Broker) -> None:
    gateway = Gateway(tmp_path, "gateway")
    bundle = gateway.ok("broker", "enrol", gateway.author, "--ca", str(ca.folder))
    gateway.ok("relay", "set", strict.url, "--ca-file", str(server[0]), "--certificate", "-", feed=bundle)
    assert (gateway.state / "relay.pem").stat().st_mode & 0o777 == 0o600
    found = {each["check"]: each for each in json.loads(gateway.covey("check", "--json").stdout)["findings"]}
    assert found["credential"]["level"] == "ok"
    assert "accepts this device" in found["credential"]["line"]


def test_a_broker_speaks_tls_1_3_alone(strict: Broker, server: tuple[Path, Path]) -> None:
    reached = own_relay.connect(strict.url, server[0])
    assert reached.protocol == "TLSv1.3"
    old = tls_context(server[0], allow_tls12=True)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", strict.port)) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain, server_hostname="127.0.0.1")


def test_a_broker_without_tls_1_3_is_distinguished_from_others(server: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*server)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"mqtts://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RelayError, match=r"does not speak TLS 1\.3") as raised:
            own_relay.connect(url, server[0])
        assert "covey config set relay.allow_tls12 true" in (raised.value.hint or "")
        assert own_relay.connect(url, server[0], allow_tls12=True).protocol == "TLSv1.2"
        thread.join(GUARD_S)
