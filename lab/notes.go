package lab

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/stats"
	"gpipebench/lab/records"
)

func CommitName(s records.Provenance) string {
	if s.Commit == "" {
		return "unknown"
	}
	name := s.Commit[:min(12, len(s.Commit))]
	if s.Dirty {
		name += " with changes"
	}
	return name
}

// FewRoundsNote warns of medians without an interval, if n rounds give none.
func FewRoundsNote(n int) []string {
	least := stats.LeastForInterval(0.95)
	if n >= least {
		return nil
	}
	return []string{fmt.Sprintf("Warning: n = %d rounds. A 95%% interval of order statistics needs at least %d rounds, so the medians have no interval here: how far another run would be from them is not known.", n, least)}
}

// StarNote says what an asterisk means, if a table has one.
func StarNote(t *Table) []string {
	for _, row := range t.Rows {
		if slices.ContainsFunc(row, Value.IsStarred) {
			return []string{"An asterisk: the step, or the one that it is relative to, needs more memory than a device has."}
		}
	}
	return nil
}

// FewSeedsNote warns if n seeds are few: Student's t assumes normal values, which few
// values cannot show.
func FewSeedsNote(n int) []string {
	least := stats.LeastForInterval(0.95)
	switch {
	case n >= least:
		return nil
	case n < 2:
		return []string{fmt.Sprintf("Warning: n = %d seed. One seed gives no standard deviation, no interval and no test, and shows nothing about other seeds.", n)}
	}
	return []string{fmt.Sprintf("Warning: n = %d seeds. Student's t has %d degrees of freedom and assumes that the values are normally distributed, which %[1]d values cannot show. A 95%% interval without this assumption (order statistics) needs at least %[3]d seeds.", n, n-1, least)}
}

// SeedsNote lists every seed of an experiment's samples.
func SeedsNote(log *records.Log) string {
	seeds := log.Seeds()
	if len(seeds) == 0 {
		return "Seeds: none; no random numbers are used."
	}
	return "Seeds: " + FormatSeeds(seeds) + "."
}

// FormatSeeds lists seeds.
func FormatSeeds(seeds []uint64) string {
	var all []string
	for _, s := range seeds {
		all = append(all, fmt.Sprint(s))
	}
	return strings.Join(all, ", ")
}

// ProvenanceNote says when, by what and where an experiment's samples were
// measured. Of several processes, it has the first's and the last's time, and
// every commit.
func ProvenanceNote(log *records.Log) string {
	when := log.Session.Time
	commits := []string{CommitName(log.Session)}
	if all := log.Measuring(); len(all) > 1 {
		when = fmt.Sprintf("%s to %s by %d processes", all[0].Time, all[len(all)-1].Time, len(all))
		commits = nil
		for _, s := range all {
			if c := CommitName(s); !slices.Contains(commits, c) {
				commits = append(commits, c)
			}
		}
	}
	return fmt.Sprintf("Measured %s, commit %s, profile %s, spec %s, %s.", when, strings.Join(commits, ", "), log.Key.Profile, log.Key.Spec, log.Session.Machine)
}

// ReferenceName names the columns of a reference that is shown beside a log: with its
// profile, if that is another.
func ReferenceName(log, reference *records.Log) string {
	if reference.Key.Profile == log.Key.Profile {
		return "reference"
	}
	return "reference (" + reference.Key.Profile + ")"
}

func ReferenceNote(reference *records.Log) string {
	return fmt.Sprintf("Reference: %s, profile %s, %s.", reference.Session.Machine, reference.Key.Profile, reference.Session.Time)
}
