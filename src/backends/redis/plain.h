/* SPDX-License-Identifier: MIT */
/* layout=simple without scripts: MULTI, WATCH and EXEC instead (plain.c). */
#ifndef HF_REDIS_PLAIN_H
#define HF_REDIS_PLAIN_H

#include "session.h"

void plain_attempt(struct redis_session *me, struct hf_ticket *ticket);
void plain_withdraw(struct redis_session *me, struct hf_ticket *ticket);
void plain_renew(struct redis_session *me, struct hf_ticket *ticket,
                 enum hf_renew_mode mode);
void plain_forget(struct redis_session *me, const void *ticket);
void plain_done(struct redis_session *me);

#endif
