/* SPDX-License-Identifier: MIT */
/* Random small stories about one lock, right ones and wrong ones. */
#ifndef CHECKER_RANDOM_STORY_H
#define CHECKER_RANDOM_STORY_H

#include "story.h"

/* 2 to 5 threads, 2 to 8 acquires; the same for the same seed. */
void random_story(struct story *story, uint64_t seed);

/* Events without any sense, some of which look as if they belonged together. */
void random_nonsense(struct story *story, uint64_t seed);

#endif
