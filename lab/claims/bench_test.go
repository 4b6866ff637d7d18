package claims_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/bench/rows"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// bench is what make bench has measured. The last directory has it: it has no profiles.
func (d document) bench(id string) (string, error) {
	log, err := records.Load(filepath.Join(d.from[len(d.from)-1].results, "records", "bench.jsonl"), rows.Key().Experiment)
	if errors.Is(err, fs.ErrNotExist) {
		return notThere, nil
	}
	if err != nil {
		return "", err
	}
	of := rows.Table
	switch id {
	case "scale":
		return d.draw(rows.Scale(log))
	case "roofline":
		of = rows.Roofline
	}
	t, err := of(log)
	if err != nil || len(t.Rows) == 0 {
		return notThere, err
	}
	var b strings.Builder
	err = t.Draw(&b, true)
	return strings.TrimSpace(b.String()) + "\n\n<sub>" + strings.Join(t.Notes, " ") + "</sub>", err
}

// draw keeps pictures, to be written to the last directory, and shows them.
func (d document) draw(files []lab.File, err error) (string, error) {
	if len(files) == 0 {
		return notThere, err
	}
	dir := d.from[len(d.from)-1]
	var all []string
	for _, f := range files {
		d.drawn[filepath.Join(dir.results, f.Name)] = f.Text
		all = append(all, fmt.Sprintf("![%s](%s)", f.Name, path.Join(dir.tables, "..", f.Name)))
	}
	return strings.Join(all, "\n"), err
}

// What make bench has measured is a table; a row that it lacks says so.
func TestBenchTable(t *testing.T) {
	dir := t.TempDir()
	d := document{from: []directory{{results: dir}}}
	const marker = "<!-- bench -->\n\n%s\n\n<!-- end -->"
	testkit.Equal(t, testkit.Must(d.regenerate(fmt.Sprintf(marker, "old")))(t), fmt.Sprintf(marker, notThere), "\n")
	log := testkit.Must(records.Open(filepath.Join(dir, "records", "bench.jsonl"), rows.Key(), true))(t)
	s := &rows.Sample{What: "1 thread", Note: "PyTorch 2, a|b"}
	s.Add("ours", "s", 0.25, 4, 0.5)
	s.Add("resident", "MiB", 100)
	s.Add("ratio", "", 0.7, 0.8, 0.9)
	testkit.NoError(t, log.Add(rows.List[1].SampleName(s), 0, s))
	testkit.NoError(t, log.Close())
	got := testkit.Must(d.regenerate(fmt.Sprintf(marker, "old")))(t)
	lines := strings.Split(got, "\n")
	for i, r := range rows.List {
		line := strings.Join(cellsOf(lines[4+i]), " ; ")
		want := r.Title + " ;  ; not measured ; " + r.Reach
		if i == 1 {
			want = r.Title + ` ; 1 thread ; ours 0.5 s, resident 100 MiB, ratio 0.800, (PyTorch 2, a\|b) ; ` + r.Reach
		}
		testkit.Equal(t, want, line, "%s, want\n", line)
	}
	testkit.Has(t, got, "<sub>Measured ")
}

// The plot of simulate has a point for each size, and the table of rooflines a row for each kind of layer
// that takes a hundredth of a step, with what the others take and all together.
func TestBenchRooflineAndScale(t *testing.T) {
	dir := t.TempDir()
	d := document{from: []directory{{results: dir, tables: "results/tables/"}}, drawn: map[string]string{}}
	log := testkit.Must(records.Open(filepath.Join(dir, "records", "bench.jsonl"), rows.Key(), true))(t)
	add := func(row string, s *rows.Sample) {
		testkit.NoError(t, log.Add(row+"/"+s.What, 0, s))
	}
	add("sgemm", &rows.Sample{What: "n = 256"})
	const both = "<!-- bench: roofline -->\n\n%s\n\n<!-- end -->\n<!-- bench: scale -->\n\n%s\n\n<!-- end -->"
	testkit.Equal(t, testkit.Must(d.regenerate(fmt.Sprintf(both, "", "")))(t), fmt.Sprintf(both, notThere, notThere), "\n")
	for _, tasks := range []float64{1, 2} {
		s := &rows.Sample{What: fmt.Sprintf("K = 128, M = %g", tasks)}
		s.Add("ours", "s", tasks)
		s.Add("resident", "MiB", 200*tasks)
		s.Add("a task", "ns", 1000+tasks)
		s.Add("tasks", "million", tasks)
		add("simulate-scale", s)
	}
	s := &rows.Sample{What: "step"}
	for _, k := range []rows.Kind{
		{Name: "matmul", Seconds: 0.5, Least: 0.5, Arithmetic: 0.5}, {Name: "bias", Seconds: 0.005, Least: 0.004}, {Name: "copy", Seconds: 0.002}, {Name: "layer-norm", Seconds: 0.2, Least: 0.1},
		{Name: "matmul", Seconds: 0.1, Least: 0.02, Arithmetic: 0.01}, {Name: "waiting", Seconds: 0.193},
	} {
		s.AddKind(k)
	}
	add("roofline", s)
	testkit.NoError(t, log.Close())
	got := testkit.Must(d.regenerate(fmt.Sprintf(both, "", "")))(t)
	var cells []string
	for line := range strings.SplitSeq(got, "\n") {
		if strings.HasPrefix(line, "| step") {
			cells = append(cells, strings.Join(cellsOf(line)[1:], " "))
		}
	}
	want := []string{
		"matmul 600 ms 60.0% 520 ms 1.15 arithmetic", "layer-norm 200 ms 20.0% 100 ms 2.00 moving data", "waiting 193 ms 19.3% - - ",
		"others 7 ms 0.7% 4 ms 1.75 moving data", "all 1 s 100.0% 624 ms 1.60 arithmetic",
	}
	testkit.EqualAll(t, want, cells, "%q, want\n", cells)
	drawn := d.drawn[filepath.Join(dir, "bench-scale.svg")]
	if !strings.Contains(got, "](results/bench-scale.svg)") || !strings.Contains(drawn, "A task takes 1001 to 1002 ns, in steps of 1.0 to 2.0 million") || !strings.Contains(drawn, "K = 128") {
		t.Errorf("%s\n%s", got, drawn)
	}
}
