"""The local API: one device as programs and commands reach it.

`device_api.py` is the interface; `opened_device.py` answers from the state, `answering_agent.py` asks a running agent.
`operations.py` lists the endpoints (`app/openapi.py` describes them), `service.py` serves them, `events.py` and
`event_documents.py` tell what happens.
"""
