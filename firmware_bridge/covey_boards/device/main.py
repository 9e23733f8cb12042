"""What a board starts with. As source, because boards look for no `main.mpy`; everything else may be compiled."""

from ports import main

main()
