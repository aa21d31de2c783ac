/* SPDX-License-Identifier: MIT */
/* layout=simple without scripts: MULTI, WATCH and EXEC instead (noscript.c). */
#ifndef HF_REDIS_NOSCRIPT_H
#define HF_REDIS_NOSCRIPT_H

#include "session.h"

void hf__redis_noscript_attempt(struct redis_session *me, struct hf_ticket *ticket);
void hf__redis_noscript_withdraw(struct redis_session *me, struct hf_ticket *ticket);
void hf__redis_noscript_renew(struct redis_session *me, struct hf_ticket *ticket,
                              enum hf_renew_mode mode);
void hf__redis_noscript_forget(struct redis_session *me, const void *ticket);
void hf__redis_noscript_done(struct redis_session *me);

#endif
