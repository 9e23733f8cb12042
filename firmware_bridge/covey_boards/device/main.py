"""A board's start. As source, because boards look for no `main.mpy`; everything else may be compiled."""

from os import listdir

if "slot.cbor" in listdir() or "slot.cbor.new" in listdir():  # it was updated: else nothing of that is loaded
    import slots

    slots.start()
    del slots  # with all that it has loaded
from ports import main

main()
