"""What runs on the boards, in MicroPython's dialect: runners of vectors, seeded worlds, and seams for missing modules.

Boards hold their files in one folder, so these modules import each other by bare name there. CPython runs some of them,
too. `mps2/` stands for the hardware of QEMU's MPS2.
"""
