/* SPDX-License-Identifier: MIT */
/* What hf_inspect() and hf_diagnose() give, and the data of a cell on their way to the
 * caller. */
#ifndef HF_CORE_REPORT_H
#define HF_CORE_REPORT_H

#include "../../include/holdfast/backend.h"

struct hf_report {
    size_t count, room;
    size_t bytes;      /* of the entries and their strings */
    hf_entry *entries; /* each with its strings in one block, at `name` */
    size_t finding_count;
    hf_finding *findings; /* worst first; strings in one block, at `topic` */
};

hf_report *hf__report_new(void);
void hf__report_free(hf_report *report);
void hf__report_add(struct hf_request *request, const hf_entry *entry);
void hf__report_find(struct hf_request *request, const hf_finding *finding);
void hf__report_cell(struct hf_request *request, const void *data, size_t len);

#endif
