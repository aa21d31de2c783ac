/* SPDX-License-Identifier: MIT */
/*
 * Prints what the checker found: see report.h. All in one place, so that the table and
 * the JSON object say the same.
 */
#include "report.h"

#include <inttypes.h>

static const char *verdict(const struct check_options *options,
                           const struct check_report *report, enum check_id id)
{
    const struct check_finding *found = &report->checks[id];
    if (found->found)
        return check_must_hold(options, id) ? "VIOLATED" : "seen";
    if (!found->applicable)
        return "not applicable";
    return check_must_hold(options, id) ? "holds" : "not seen";
}

static int fault_kinds(const struct check_report *report)
{
    int kinds = 0;
    for (int kind = 0; kind < 256; kind++)
        kinds += report->faults_by[kind] != 0;
    return kinds;
}

static uint64_t violations_of(const struct check_options *options,
                              const struct check_report *report, enum check_group group)
{
    uint64_t sum = 0;
    for (enum check_id id = 0; id < CHECKS; id++)
        if (check_must_hold(options, id))
            sum += report->checks[id].found_by[group];
    return sum;
}

/* ---- Text ------------------------------------------------------------------------ */

static void text_kinds(FILE *out, const struct check_report *report)
{
    fprintf(out, "%-10s %10s %10s %9s %9s %8s %8s %8s %8s\n", "kind", "acquired",
            "exposed", "busy", "timeout", "unknown", "failed", "lost", "late");
    for (enum check_group group = 0; group <= GROUPS; group++) {
        const struct check_totals *totals =
            group == GROUPS ? &report->all : &report->by[group];
        if (group != GROUPS && !totals->acquisitions && !totals->busy &&
            !totals->timeout && !totals->unknown && !totals->failed)
            continue;
        fprintf(out,
                "%-10s %10" PRIu64 " %10" PRIu64 " %9" PRIu64 " %9" PRIu64 " %8" PRIu64
                " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n",
                group == GROUPS ? "all" : check_group_name(group), totals->acquisitions,
                totals->exposed, totals->busy, totals->timeout, totals->unknown,
                totals->failed, totals->lost, totals->late);
    }
}

static void text_checks(FILE *out, const struct check_options *options,
                        const struct check_report *report)
{
    fprintf(out, "\n%-28s %12s %10s  %s\n", "check", "examined", "found", "verdict");
    for (enum check_id id = 0; id < CHECKS; id++)
        fprintf(out, "%-3s %-24s %12" PRIu64 " %10" PRIu64 "  %s\n", check_name(id),
                check_title(id), report->checks[id].examined, report->checks[id].found,
                verdict(options, report, id));
}

static void text_examples(FILE *out, const struct check_report *report)
{
    for (enum check_id id = 0; id < CHECKS; id++) {
        const struct check_finding *found = &report->checks[id];
        if (found->found)
            fprintf(out, "\n");
        for (int i = 0; i < CHECK_EXAMPLES && found->examples[i]; i++)
            fprintf(out, "%s %s\n", check_name(id), found->examples[i]);
        if (found->found > CHECK_EXAMPLES)
            fprintf(out, "%s ... %" PRIu64 " more\n", check_name(id),
                    found->found - CHECK_EXAMPLES);
    }
}

void report_text(FILE *out, const struct check_options *options,
                 const struct check_report *report)
{
    fprintf(out,
            "lockcheck: %" PRIu64 " histories, %" PRIu64 " events, %.3f s, %" PRIu64
            " faults of %d kinds%s\n\n",
            report->histories, report->events, (double)report->duration_ns / 1e9,
            report->faults, fault_kinds(report),
            options->unsound ? ", unsound: only K3 and K4 must hold" : "");
    text_kinds(out, report);
    text_checks(out, options, report);
    fprintf(out,
            "\nadopted %" PRIu64 ", left %" PRIu64 ", evicted %" PRIu64
            ", downgraded %" PRIu64 ", extended %" PRIu64 "; releases doubted %" PRIu64,
            report->all.adoptions, report->all.left, report->all.evictions,
            report->all.downgrades, report->all.extends, report->doubted);
    fprintf(out,
            "\nlost updates: fenced %" PRIu64 ", plain %" PRIu64 "; rejected %" PRIu64
            "; longest belief overlap %.3f ms; stuck %" PRIu64
            "; order suspected %" PRIu64 "; busy excused %" PRIu64 ", unserved %" PRIu64
            "\n",
            report->all.lost_fenced, report->all.lost_plain, report->all.rejected,
            (double)report->belief_max_ns / 1e6, report->all.stuck, report->suspicions,
            report->excused, report->unserved);
    text_examples(out, report);
    fprintf(out, "\nlockcheck: %" PRIu64 " violations\n", report->violations);
}

/* ---- JSON ------------------------------------------------------------------------ */

static void json_number(FILE *out, const char *name, uint64_t number)
{
    fprintf(out, "\"%s\": %" PRIu64 ", ", name, number);
}

static void json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('"', out);
}

static void json_totals(FILE *out, const struct check_totals *totals)
{
    json_number(out, "acquisitions", totals->acquisitions);
    json_number(out, "exposed", totals->exposed);
    json_number(out, "busy", totals->busy);
    json_number(out, "timeout", totals->timeout);
    json_number(out, "unknown", totals->unknown);
    json_number(out, "failed", totals->failed);
    json_number(out, "lost", totals->lost);
    json_number(out, "late", totals->late);
    json_number(out, "stuck", totals->stuck);
    json_number(out, "fenced_writes", totals->fenced);
    json_number(out, "rejected_writes", totals->rejected);
    json_number(out, "lost_updates_fenced", totals->lost_fenced);
    json_number(out, "lost_updates_plain", totals->lost_plain);
    json_number(out, "adoptions", totals->adoptions);
    json_number(out, "left", totals->left);
    json_number(out, "evictions", totals->evictions);
    json_number(out, "downgrades", totals->downgrades);
    json_number(out, "extends", totals->extends);
}

static void json_checks(FILE *out, const struct check_options *options,
                        const struct check_report *report)
{
    fprintf(out, "\"checks\": {");
    for (enum check_id id = 0; id < CHECKS; id++) {
        const struct check_finding *found = &report->checks[id];
        fprintf(out, "%s\"%s\": {\"title\": \"%s\", \"verdict\": \"%s\", ",
                id ? ", " : "", check_name(id), check_title(id),
                verdict(options, report, id));
        fprintf(out, "\"must_hold\": %s, \"applicable\": %s, ",
                check_must_hold(options, id) ? "true" : "false",
                found->applicable ? "true" : "false");
        json_number(out, "examined", found->examined);
        json_number(out, "found", found->found);
        fprintf(out, "\"examples\": [");
        for (int i = 0; i < CHECK_EXAMPLES && found->examples[i]; i++) {
            fprintf(out, "%s", i ? ", " : "");
            json_string(out, found->examples[i]);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "}, ");
}

static void json_kinds(FILE *out, const struct check_options *options,
                       const struct check_report *report)
{
    fprintf(out, "\"kinds\": {");
    for (enum check_group group = 0; group < GROUPS; group++) {
        fprintf(out, "%s\"%s\": {", group ? ", " : "", check_group_name(group));
        json_totals(out, &report->by[group]);
        fprintf(out, "\"violations\": %" PRIu64 "}",
                violations_of(options, report, group));
    }
    fprintf(out, "}, \"faults_by_kind\": {");
    const char *comma = "";
    for (int kind = 0; kind < 256; kind++) {
        if (!report->faults_by[kind])
            continue;
        fprintf(out, "%s\"%d\": %" PRIu64, comma, kind, report->faults_by[kind]);
        comma = ", ";
    }
    fprintf(out, "}");
}

void report_json(FILE *out, const struct check_options *options,
                 const struct check_report *report)
{
    fprintf(out, "{");
    json_totals(out, &report->all);
    json_number(out, "violations", report->violations);
    json_number(out, "histories", report->histories);
    json_number(out, "events", report->events);
    json_number(out, "faults", report->faults);
    json_number(out, "fault_kinds", (uint64_t)fault_kinds(report));
    json_number(out, "belief_overlaps", report->checks[K2_BELIEF].found);
    json_number(out, "order_suspicions", report->suspicions);
    json_number(out, "busy_excused", report->excused);
    json_number(out, "unserved", report->unserved);
    json_number(out, "releases_doubted", report->doubted);
    json_number(out, "residue", report->residue);
    fprintf(out, "\"duration_ms\": %.3f, \"belief_overlap_max_ms\": %.3f, ",
            (double)report->duration_ns / 1e6, (double)report->belief_max_ns / 1e6);
    fprintf(out, "\"unsound\": %s, ", options->unsound ? "true" : "false");
    json_checks(out, options, report);
    json_kinds(out, options, report);
    fprintf(out, "}\n");
}
