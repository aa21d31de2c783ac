/* SPDX-License-Identifier: MIT */
/* The switch in an instrumented source: M(n) asks "is this run for mutant n?", and in a
 * run that measures it notes that place n was reached. Made by tools/mutate. */
#ifndef HFM_SWITCH_H
#define HFM_SWITCH_H

extern int hfm_number;           /* of this run's mutant; none: -1 */
extern unsigned char *hfm_reached; /* one byte per mutant; NULL: nothing is measured */

static inline __attribute__((unused)) int hfm_is(int number)
{
    if (__builtin_expect(hfm_reached != 0, 0))
        hfm_reached[number] = 1;
    return hfm_number == number;
}
#define M(number) hfm_is(number)

#endif
