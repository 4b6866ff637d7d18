package experiments

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// What stands in a folder with a spec is in the list, under its paper, and what is
// in the list is whole, and every command is a target of make.
func TestEveryExperimentIsListed(t *testing.T) {
	folders := map[string]string{} // by the spec's text
	testkit.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "spec.yaml" {
			folders[string(testkit.Must(os.ReadFile(name))(t))] = filepath.ToSlash(filepath.Dir(name))
		}
		return err
	}))
	testkit.Equal(t, len(folders), len(List()), "folders have a spec")
	of := map[string]string{}
	for _, p := range Papers {
		if text, err := os.ReadFile(filepath.Join(p.Name, "claims.yaml")); err != nil || string(text) != string(p.Claims) || p.Title == "" || p.Of == "" || p.Name == AllPapers {
			t.Errorf("paper %q, of %q, titled %q: its claims are not those in its folder: %v", p.Name, p.Of, p.Title, err)
		}
		for _, d := range p.Experiments {
			e := testkit.Must(d.Load())(t)
			about, folder := d.About(), folders[d.Spec()]
			if e.ID() != d.ID || of[d.ID] != "" || e.Title() == "" || e.Title() != d.Title() || about.Place == "" || about.Text == "" {
				t.Errorf("%s: its spec is of %s, its title %q, about.md %+v, and %q has the same id", d.ID, e.ID(), e.Title(), about, of[d.ID])
			}
			if of[d.ID] = folder; !strings.HasPrefix(folder, p.Name+"/") {
				t.Errorf("%s, of paper %s, is in folder %q", d.ID, p.Name, folder)
			}
			for _, profile := range lab.Profiles {
				if e.Expected(profile) <= 0 {
					t.Errorf("%s: no duration for %s", d.ID, profile)
				}
			}
			if e.Key("quick") == e.Key("full") {
				t.Errorf("%s: one key for two profiles", d.ID)
			}
		}
	}
	var commands []string
	for _, p := range Papers[1:] {
		testkit.Equal(t, of[p.Name], "", "%s is a paper and an experiment", p.Name)
		commands = append(commands, p.Name)
	}
	for _, parts := range Commands(List()) {
		commands = append(commands, parts[0].ID)
		for _, d := range parts[1:] {
			own, _, _ := strings.Cut(of[d.ID], "/")
			if other, _, _ := strings.Cut(of[parts[0].ID], "/"); own != other {
				t.Errorf("%s, in folder %s, is run by another paper's command %s, whose folder is %s", d.ID, of[d.ID], parts[0].ID, of[parts[0].ID])
			}
		}
	}
	slices.Sort(commands)
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	plan := exec.Command("make", append([]string{"-n"}, commands...)...)
	plan.Dir = ".."
	out := testkit.Must(plan.Output())(t, "make %s", strings.Join(commands, " "))
	for _, c := range commands {
		testkit.Has(t, string(out), "bin/gpipebench "+c+"\n")
	}
}

// The specs decide what the reference has been measured by: a record made now stands
// beside those.
func TestKeysAreTheReferences(t *testing.T) {
	for _, dir := range []string{"reference", "reference-full"} {
		for _, id := range IDs() {
			log, err := records.Load(records.File(filepath.Join("..", "results", dir), id), id)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			testkit.NoError(t, err)
			e := testkit.Must(Load(id))(t)
			testkit.Equal(t, e.Key(log.Key.Profile).Spec, log.Key.Spec, "%s: spec, and that of %s", id, dir)
		}
	}
}
