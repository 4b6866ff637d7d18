package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpipebench/experiments/gpipe"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// shown are a spec's tables, which are no part of its design.
var shown = regexp.MustCompile(`(?ms)^tables:.*?^(?:plot|panels):`)

// committedFirst reports a sample of a log whose session's commit has another design than now, or
// none: the design was committed later, or changed. Commits that a checkout lacks say nothing.
func committedFirst(root, spec string, d lab.Definition, log *records.Log, now *lab.Registration) error {
	if now == nil || now.Registered == "none" {
		return nil
	}
	for _, s := range log.Measuring() {
		text, err := exec.Command("git", "-C", root, "show", s.Commit+":"+spec).Output()
		if err != nil {
			continue
		}
		was := ""
		text = shown.ReplaceAllLiteral(text, shown.Find([]byte(d.Spec()))) // in words that there may have been
		if then, err := d.Load(lab.SpecFile{Name: s.Commit, Experiment: d.ID, Text: text}); err == nil {
			if r := then.Registration(log.Key.Profile); r != nil {
				was = r.Digest()
			}
		}
		if was != now.Digest() {
			return fmt.Errorf("%s: at commit %s, by which it was measured, its design is %q: want %s", d.ID, s.Commit, was, now.Digest())
		}
	}
	return nil
}

// A registered design is the one at the commit of each of its committed records.
func TestDesignsWereCommittedBeforeTheirRecords(t *testing.T) {
	for _, p := range Papers {
		for _, d := range p.Experiments {
			for _, dir := range []string{"reference", "reference-full"} {
				log, err := records.Load(records.File(filepath.Join("..", "results", dir), d.ID), d.ID)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				testkit.NoError(t, err)
				e := testkit.Must(d.Load())(t)
				testkit.Equal(t, committedFirst("..", "experiments/"+p.Name+"/"+d.ID+"/spec.yaml", d, log, e.Registration(log.Key.Profile)), nil)
			}
		}
	}
}

// A margin that is changed after a record is found by the commit that the record names.
func TestChangedDesignIsFoundByCommit(t *testing.T) {
	root, d := t.TempDir(), gpipe.Paper.Experiment("delayed-reduction")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...).CombinedOutput()
		testkit.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	spec := func(size string) string {
		return strings.Replace(d.Spec(), "margin: {size: 0,", "margin: {size: "+size+",", 1)
	}
	commit := func(text string) string {
		t.Helper()
		testkit.NoError(t, os.WriteFile(filepath.Join(root, "spec.yaml"), []byte(text), 0o600))
		git("add", "spec.yaml")
		git("commit", "-q", "-m", "x")
		return git("rev-parse", "HEAD")
	}
	e := testkit.Must(d.Load(lab.SpecFile{Name: "x.yaml", Experiment: d.ID, Text: []byte(spec("0"))}))(t)
	for _, c := range []struct{ text, want string }{
		{spec("0"), ""},
		{strings.Replace(spec("0"), "because: \"", "because: \"as was said, ", 1), ""},
		{spec("5"), "its design is "},
		{strings.Replace(spec("0"), "seeds: [1, 2, 3, 4, 5]", "seeds: [1, 2, 3, 4, 6]", 1), "its design is "},
		{"experiment: delayed-reduction\n", `its design is ""`},
	} {
		log := records.New(e.Key("quick"))
		log.Put(&records.Record{Session: "s", Provenance: &records.Provenance{Commit: commit(c.text)}})
		log.Put(&records.Record{Session: "s", Sample: "a"})
		err := committedFirst(root, "spec.yaml", d, log, e.Registration("quick"))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Reproduce neither goes on under another design than that of the first record nor adds a sample of
// a seed that is not the design's.
func TestReproduceKeepsToTheDesign(t *testing.T) {
	d, out := gpipe.Paper.Experiment("delayed-reduction"), t.TempDir()
	r := Reproducing{Profile: "smoke", Only: []string{d.ID}, Out: out}
	show := func(lab.Experiment, *lab.Report) error { return nil }
	testkit.NoError(t, r.Run(t.Context(), progress.Silent{}, show))
	r.Spec = filepath.Join(out, "mine.yaml")
	testkit.NoError(t, os.WriteFile(r.Spec, []byte(strings.Replace(d.Spec(), "margin: {size: 0,", "margin: {size: 5,", 1)), 0o600))
	testkit.Fails(t, r.Run(t.Context(), progress.Silent{}, show), "a design does not change after its first record; --fresh measures anew")
	e := testkit.Must(d.Load())(t)
	log := records.New(e.Key("smoke"))
	log.Admits = e.Registration("smoke").Admits
	testkit.Fails(t, log.Add("reduced late/seed7", 7, 1), "delayed-reduction, sample reduced late/seed7: seed 7 is not of the design")
}
