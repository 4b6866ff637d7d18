package claims

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpipebench/internal/printable"
	"gpipebench/lab"
)

// Tables returns the verdicts, the tolerances, and the state of each experiment's
// records.
func (v *Verification) Tables() []*lab.Table {
	claims := &lab.Table{
		ID: "claims", Title: fmt.Sprintf("Claims of %s, and what came out here", v.Subjects()),
		Caption: []string{
			"Counts must match. Ratios compare figures from the paper's machines with ours: reproduced if our whole interval is within the tolerance; not decided here if the interval spans its limit; within what is unstated if the paper's figure lies within our range over the settings that the paper leaves open; a figure that differs is shown, and is not a failure. Trends are conditions that must hold here. Stand-ins use small networks or modelled devices: they agree, disagree or are inconclusive. Contradictions are within the paper. Derived claims follow from the paper's figures or from how a step is built, so no measurement is expected to refute them. Our own claims (kind ours) are about this suite's tools, and extensions are statements that no paper makes. A claim counted as another judges the same cell or fact, and is left out of totals.",
			"Profile: quick takes minutes; claims that time or train are judged at full where it has been run. Basis: measured runs small networks on this machine, modelled is planned or simulated at the paper's scale, counted is a property of a network or a plan, arithmetic is a closed form or uses the paper's own figures. The paper's figures are as printed unless brackets say otherwise.",
		},
	}
	claims.Texts("claim", "where", "kind", "basis")
	claims.Numbers("paper")
	claims.Texts("here", "tolerance", "profile", "verdict", "id", "ledger")
	for _, c := range v.Claims {
		claims.Add(c.Claim.Claim, c.Version+" "+c.Where, string(c.Kind), cmp.Or(string(c.Basis), "-"), c.printedBy(), c.here(), c.tolerated(), cmp.Or(c.Profile, "-"), string(c.Verdict), c.ID, c.Ledger)
	}
	claims.Notes = []string{fmt.Sprintf("%d claims: %s.", len(v.Claims), counted(v.Counts))}
	if facts := v.facts(); len(facts) < len(v.Claims) {
		claims.Notes = append(claims.Notes, fmt.Sprintf("By independent fact, %d: %s.", len(facts), counted(v.Facts)))
	}
	if slices.ContainsFunc(v.Claims, func(c Judgement) bool { return c.Figure != nil && strings.Contains(c.Figure.text, "*") }) {
		claims.Notes = append(claims.Notes, "An asterisk: the figure rests on a step that needs more memory than a device has.")
	}
	for _, what := range v.Wrong {
		claims.Notes = append(claims.Notes, "Wrong: "+what+".")
	}
	tolerances := &lab.Table{ID: "claims-tolerances", Title: "How far a figure may be from the paper's, and why"}
	tolerances.Texts("tolerance", "figure within", "because")
	for _, t := range v.tolerances() {
		within := "half a unit of the last printed digit"
		if t.Percent > 0 {
			within = t.share()
		}
		tolerances.Add(t.Name, within, t.Because)
	}
	records := &lab.Table{ID: "claims-records", Title: "Records that the verdicts rest on"}
	records.Texts("experiment", "profile", "records", "in")
	for _, s := range v.Records {
		records.Add(s.Experiment, cmp.Or(s.Profile, "-"), s.State, s.Results)
	}
	return []*lab.Table{claims, tolerances, records}
}

// Subjects names what the claims are about.
func (v *Verification) Subjects() string {
	var of []string
	for _, p := range v.subjects {
		if slices.Contains(v.Papers, p.Name) {
			of = append(of, p.Of)
		}
	}
	return strings.Join(of, " and of ")
}

// tolerances returns those of the claims, in their order.
func (v *Verification) tolerances() (all []Tolerance) {
	for _, c := range v.Claims {
		if c.Within != nil && !slices.Contains(all, *c.Within) {
			all = append(all, *c.Within)
		}
	}
	return all
}

// counted lists how many claims have each verdict.
func counted(of map[Verdict]int) string {
	var counts []string
	for _, m := range Verdicts {
		if n := of[m.Verdict]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, m.Verdict))
		}
	}
	return strings.Join(counts, ", ")
}

// facts are the claims that are not the same as another.
func (v *Verification) facts() []Judgement {
	return slices.DeleteFunc(slices.Clone(v.Claims), func(c Judgement) bool { return c.Same != "" })
}

// Summary counts facts by kind and verdict, and by what their evidence is.
func (v *Verification) Summary() (byKind, byBasis *lab.Table) {
	facts := v.facts()
	var verdicts []Verdict
	for _, m := range Verdicts {
		if slices.ContainsFunc(facts, func(c Judgement) bool { return c.Verdict == m.Verdict }) {
			verdicts = append(verdicts, m.Verdict)
		}
	}
	table := func(id, title, of string, rows []string, row func(Judgement) string) *lab.Table {
		t := &lab.Table{ID: id, Title: title}
		t.Texts(of)
		t.Numbers("claims")
		for _, verdict := range verdicts {
			t.Numbers(string(verdict))
		}
		for _, name := range rows {
			counts, all := make([]int, len(verdicts)), 0
			for _, c := range facts {
				if row(c) == name {
					counts[slices.Index(verdicts, c.Verdict)]++
					all++
				}
			}
			var cells []any
			for _, n := range counts {
				if n > 0 {
					cells = append(cells, n)
				} else {
					cells = append(cells, "")
				}
			}
			if all > 0 {
				t.Add(cmp.Or(name, "none"), all, cells)
			}
		}
		return t
	}
	var kinds, bases []string
	for _, k := range Kinds {
		kinds = append(kinds, string(k))
	}
	for _, b := range append(slices.Clone(Bases), "") {
		bases = append(bases, string(b))
	}
	return table("claims-summary", "Claims by kind", "kind of claim", kinds, func(c Judgement) string { return string(c.Kind) }),
		table("claims-bases", "Claims by what the evidence is", "evidence", bases, func(c Judgement) string { return string(c.Basis) })
}

// WriteText writes what the papers' main sentences come to, and counts the verdicts. With
// evidence each claim comes before, with what its verdict rests on, and the state of each
// experiment's records.
func (v *Verification) WriteText(w io.Writer, evidence bool) error {
	tables := v.Tables()
	var b strings.Builder
	if evidence {
		for _, paper := range v.Papers {
			v.Of(paper).writeClaims(&b)
			b.WriteString("\n")
		}
		for _, t := range tables[1:] {
			if len(t.Rows) == 0 {
				continue
			}
			if err := t.Write(&b, "text"); err != nil {
				return err
			}
			b.WriteString("\n")
		}
	}
	v.writeHeadline(&b)
	b.WriteString(strings.Join(tables[0].Notes, "\n") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeHeadline writes a paragraph for each row of the headline.
func (v *Verification) writeHeadline(b *strings.Builder) {
	t := v.HeadlineTable()
	if len(t.Rows) == 0 {
		return
	}
	fits := func(line string) bool { return len(line) <= 94 }
	for _, line := range printable.Fold(t.Title+" "+v.Answer(), fits) {
		fmt.Fprintf(b, "%s\n", line)
	}
	b.WriteString("\n")
	for _, row := range t.Printed() {
		for _, line := range printable.Fold(row[0], fits) {
			fmt.Fprintf(b, "%s\n", line)
		}
		for i, name := range []string{"outcome", "paper", "here"} {
			for j, line := range printable.Fold(row[i+1], func(line string) bool { return len(line) <= 82 }) {
				if j > 0 {
					name = ""
				}
				fmt.Fprintf(b, "    %-8s  %s\n", name, line)
			}
		}
		b.WriteString("\n")
	}
}

// writeClaims writes the claims of one paper.
func (v *Verification) writeClaims(b *strings.Builder) {
	fmt.Fprintf(b, "Claims of %s, and what came out here\n\n", v.Subjects())
	for _, c := range v.Claims {
		fmt.Fprintf(b, "%-18s%s\n", c.Verdict, c.Claim.Claim)
		from := fmt.Sprintf("%s: %s %s, %s", c.ID, c.Version, c.Where, c.Kind)
		if c.Basis != "" {
			from += ", " + string(c.Basis)
		}
		if c.Paper != "" {
			from += ", paper " + c.printedBy()
		}
		if c.Within != nil {
			from += ", tolerance " + c.tolerated()
		}
		if c.Profile != "" {
			from += ", profile " + c.Profile
		}
		if by := cmp.Or(c.Design, strings.Join(strings.Fields(c.check), " ")); by != "" {
			from += "; by " + by
		}
		for _, line := range printable.Fold(from+"; here: "+c.here(), func(line string) bool { return len(line) <= 96 }) {
			fmt.Fprintf(b, "%18s%s\n", "", line)
		}
	}
}
