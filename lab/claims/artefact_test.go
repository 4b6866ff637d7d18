package claims_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpipebench/experiments"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// artefact has a paragraph for each row of the first paper's headline: what comes out, the commands
// that measure it anew, how long the committed records took, and where it stands. It ends with what
// all experiments took, time and memory.
func (d document) artefact() string {
	paper := experiments.Papers[0]
	v := d.verdicts.Of(paper.Name)
	var b strings.Builder
	for i, row := range v.HeadlineTable().Printed() {
		o := v.Headline[i]
		ids := slices.Concat(o.For, o.Against, o.Open, o.Beside)
		var of, see []string // experiments
		for _, c := range v.Claims {
			if slices.Contains(ids, c.ID) {
				of = append(of, c.Records...)
			}
		}
		slices.Sort(of)
		of = slices.Compact(of)
		for _, id := range of {
			if at, ok := d.find(id + ".md"); ok {
				see = append(see, fmt.Sprintf("[%s](%s)", id, at))
			}
		}
		paperSays := ""
		if row[2] != "-" {
			paperSays = " The paper: " + row[2] + "."
		}
		var measure []string
		for _, profile := range lab.Profiles {
			if cost, which := d.cost(of, profile); len(which) > 0 {
				measure = append(measure, fmt.Sprintf("`gpipebench reproduce --profile %s --only %s --out OUT`, %s", profile, strings.Join(which, ","), took(cost)))
			}
		}
		fmt.Fprintf(&b, "**C%d. %s**\n", i+1, row[0])
		fmt.Fprintf(&b, "- Expected: **%s**%s. Here: %s.%s\n", o.Verdict, strings.TrimPrefix(row[1], string(o.Verdict)), row[3], paperSays)
		fmt.Fprintf(&b, "- Measure: %s.\n", strings.Join(measure, "; "))
		fmt.Fprintf(&b, "- See: %s; `gpipebench verify --only %s`.\n\n", strings.Join(see, ", "), strings.Join(ids, ","))
	}
	var all []string
	for _, e := range paper.Experiments {
		all = append(all, e.ID)
	}
	full, _ := d.cost(all, "full")
	quick := d.from[1].cost(all)
	fmt.Fprintf(&b, "Together the committed records took %s at profile quick (every experiment of the paper), and %s at profile full (those that size decides). No process needed more than %s of memory at quick, and %s at full.",
		took(quick), took(full), units.FormatBytes(quick.Bytes), units.FormatBytes(full.Bytes))
	return b.String()
}

// cost is the cost of the records that decide of some experiments, of those measured at a profile,
// and which these are.
func (d document) cost(ids []string, profile string) (c records.Cost, which []string) {
	for _, id := range ids {
		if x := d.from[0].reading.Experiment(id); x != nil && x.Profile == profile {
			which = append(which, id)
		}
	}
	return d.from[0].cost(which), which
}

// cost is the cost of the records of experiments that decide of a directory.
func (d directory) cost(ids []string) (c records.Cost) {
	for _, id := range ids {
		if x := d.reading.Experiment(id); x != nil {
			c = c.Plus(x.Log.Cost())
		}
	}
	return c
}

// took is how long records took, in words.
func took(c records.Cost) string {
	took := time.Duration(c.Seconds * float64(time.Second))
	if took >= 2*time.Hour {
		return fmt.Sprintf("%.0f h", took.Hours())
	}
	return units.FormatWait(took)
}
