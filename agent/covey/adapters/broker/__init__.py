"""A broker from outside: its accounts, and whether it keeps what Covey needs.

1. An authority over a broker makes credentials: passwords in mosquitto's file, or certificates of a fleet CA. A device
   does not need it to use its relay.
2. A credential is shown or handed on once; what stays is a hash, or a certificate.
3. A broker is judged by what it delivers, never by what it grants or refuses.
4. A relay of one's own is the broker that Covey brings the configuration for, run as our child and nobody else's.
5. Heavy packages are loaded on demand: `cryptography` by `fleet_ca`, paho by `visitor`.

To be read in this order: `authority` with its two kinds, `mosquitto_passwords` and `fleet_ca`; `served_folder` and
`mosquitto_process`, which are a relay of one's own; then `visitor`, the client of both examiners: `own_relay` asks, for
`covey check`, what a device may ask of its own relay without harm; `examination` tries everything, for `covey broker
check`, with identities made for it.
"""
