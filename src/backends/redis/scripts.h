/* SPDX-License-Identifier: MIT */
/* The scripts of scripts/ as the build embeds them: `-- uses:` and `-- pastes:` in a
 * script put parts into it. tools/embed-scripts.py describes both. */
#ifndef HF_REDIS_SCRIPTS_H
#define HF_REDIS_SCRIPTS_H

#include <stddef.h>

struct script {
    const char *name;
    const char *text;
    size_t len;
    char sha[41];
};

#define REDIS_SCRIPT(name) extern const struct script hf__redis_script_##name;
#define REDIS_CONSTANT(name, value)
#include "scripts.inc"
#undef REDIS_SCRIPT
#undef REDIS_CONSTANT

/* The constants that the scripts share with C: scripts/part_values.lua. */
#define REDIS_SCRIPT(name)
#define REDIS_CONSTANT(name, value) SCRIPT_##name = value,
enum {
#include "scripts.inc"
};
#undef REDIS_SCRIPT
#undef REDIS_CONSTANT

extern const struct script *const hf__redis_scripts[]; /* ends with NULL */

#endif
