TWEETNACL_DIR := $(USERMOD_DIR)
SRC_USERMOD_C += $(addprefix $(TWEETNACL_DIR)/, module.c field.c curve.c symmetric.c)
CFLAGS_USERMOD += -I$(TWEETNACL_DIR)
