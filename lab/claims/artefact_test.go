package claims_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpipebench/experiments"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/records"
)

// artefact has a paragraph for each row of the first paper's headline: what comes out, the commands
// that measure it anew, how long they take by the experiments' specs, and where it stands. It ends with
// what all experiments take, time and memory.
func (d document) artefact() (string, error) {
	paper := experiments.Papers[0]
	all := map[string]lab.Experiment{}
	var names []string
	for _, e := range paper.Experiments {
		loaded, err := e.Load()
		if err != nil {
			return "", err
		}
		all[e.ID], names = loaded, append(names, e.ID)
	}
	expected := func(profile string, ids []string) string {
		var sum time.Duration
		for _, id := range ids {
			sum += all[id].Expected(profile)
		}
		return inWords(sum)
	}
	v := d.verdicts.Of(paper.Name)
	var b strings.Builder
	for i, row := range v.HeadlineTable().Printed() {
		o := v.Headline[i]
		ids := slices.Concat(o.For, o.Against, o.Open, o.Untold, o.Pending, o.Beside)
		of, pending := recordsOf(v, ids), recordsOf(v, o.Pending)
		var see []string
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
		command := func(profile string, ids []string) string {
			return fmt.Sprintf("`gpipebench reproduce --profile %s --only %s --out OUT`, about %s", profile, strings.Join(ids, ","), expected(profile, ids))
		}
		for _, profile := range lab.Profiles {
			if which := d.measuredAt(of, profile); len(which) > 0 {
				measure = append(measure, command(profile, which))
			}
		}
		if len(pending) > 0 {
			measure = append(measure, "to decide it: "+command("full", pending))
		}
		fmt.Fprintf(&b, "**C%d. %s**\n", i+1, row[0])
		fmt.Fprintf(&b, "- Expected: **%s**%s. Here: %s.%s\n", o.Verdict, strings.TrimPrefix(row[1], string(o.Verdict)), row[3], paperSays)
		fmt.Fprintf(&b, "- Measure: %s.\n", strings.Join(measure, "; "))
		fmt.Fprintf(&b, "- See: %s; `gpipebench verify --only %s`.\n\n", strings.Join(see, ", "), strings.Join(ids, ","))
	}
	quick, full := d.from[1].cost(names), d.from[0].cost(d.measuredAt(names, "full"))
	fmt.Fprintf(&b, "Every experiment of the paper, section 6 included, takes about %s at profile quick on two idle cores, and about %s at full. The committed records were made by earlier versions of the program, some while other work was running, in %s at quick and %s at full. No process needed more than %s of memory at quick, and %s at full.",
		expected("quick", names), expected("full", names), took(quick), took(full), units.FormatBytes(quick.Bytes), units.FormatBytes(full.Bytes))
	return b.String(), nil
}

// recordsOf are the experiments on which the verdicts on some claims rest.
func recordsOf(v *claims.Verification, ids []string) (of []string) {
	for _, c := range v.Claims {
		if slices.Contains(ids, c.ID) {
			of = append(of, c.Records...)
		}
	}
	slices.Sort(of)
	return slices.Compact(of)
}

// measuredAt picks the experiments whose verdicts rest on records of a profile.
func (d document) measuredAt(ids []string, profile string) (which []string) {
	for _, id := range ids {
		if x := d.from[0].reading.Experiment(id); x != nil && x.Profile == profile {
			which = append(which, id)
		}
	}
	return which
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
func took(c records.Cost) string { return inWords(time.Duration(c.Seconds * float64(time.Second))) }

func inWords(t time.Duration) string {
	if t >= 2*time.Hour {
		return fmt.Sprintf("%.0f h", t.Hours())
	}
	return units.FormatWait(t)
}
