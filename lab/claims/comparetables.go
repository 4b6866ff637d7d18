package claims

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"gpipebench/internal/files"
	"gpipebench/lab"
)

// compareTables compares the tables of a directory of results with the
// records of all experiments. It does not judge claims.
func (v Verifying) compareTables(all []*Examined) (*Verification, error) {
	r := &Verification{Results: v.Results}
	none := true
	made := map[string]bool{} // files of tables that some report has
	for _, x := range all {
		r.Records = append(r.Records, x.RecordsState)
		r.Wrong = append(r.Wrong, x.wrong...)
		if x.State != "none" {
			none = false
		}
		if x.Usable {
			r.Wrong = append(r.Wrong, v.compare(x, made)...)
		}
	}
	if len(v.Only) > 0 {
		return r, nil // the others' records and tables are not looked at
	}
	if none {
		r.Wrong = append(r.Wrong, filepath.Join(v.Results, "records")+" has no records of any experiment: want a directory that reproduce has written; --results says which")
	}
	unfounded, err := v.unfounded(all, made)
	if err != nil {
		return nil, err
	}
	r.Wrong = append(r.Wrong, unfounded...)
	return r, nil
}

// compare returns which of an experiment's tables are not what its records give, and
// adds the names of those that it should have to made.
func (v Verifying) compare(x *Examined, made map[string]bool) (wrong []string) {
	dir := filepath.Join(v.Results, "tables")
	differ, missing, unreadable := differing(dir, x.files)
	should, hint := x.files, ""
	if len(differ)+len(missing) > 0 && v.Reference != "" && !files.SameDir(v.Results, v.Reference) {
		// They may have been made with a reference beside.
		beside, err := x.noted(v.Reference)
		if err != nil {
			hint = fmt.Sprintf("; a run that they may show beside cannot be read (--reference %s): %v", v.Reference, files.Reason(err))
		} else if d, m, u := differing(dir, beside); len(d)+len(m) < len(differ)+len(missing) {
			should, differ, missing, unreadable = beside, d, m, u
		}
	}
	for _, f := range should {
		made[f.Name] = true
	}
	if len(differ) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: not what the records of %s give; reproduce writes tables again%s", files.FirstOf(dir, differ), x.Experiment, hint))
	}
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: not there, though the records of %s are; reproduce writes tables again", files.FirstOf(dir, missing), x.Experiment))
	}
	return append(wrong, unreadable...)
}

// tableKind bounds a file of a report: none has reached a megabyte.
var tableKind = files.Kind{What: "a file that reproduce writes", Bytes: 16 << 20}

// differing returns the files of a report that differ in a directory, those that are
// missing there, and why others cannot be read.
func differing(dir string, should []lab.File) (differ, missing, unreadable []string) {
	for _, f := range should {
		text, err := files.Read(filepath.Join(dir, f.Name), tableKind)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f.Name)
		case err != nil:
			unreadable = append(unreadable, err.Error())
		case string(text) != f.Text:
			differ = append(differ, f.Name)
		}
	}
	return differ, missing, unreadable
}

// unfounded returns which tables are in no report that is made of usable records.
func (v Verifying) unfounded(all []*Examined, made map[string]bool) (wrong []string, err error) {
	dir := filepath.Join(v.Results, "tables")
	names, err := files.Below(v.Results, "tables")
	if err != nil {
		return nil, err
	}
	of := map[*Examined][]string{} // nil: of no experiment
	for _, name := range names {
		name = strings.TrimPrefix(name, "tables/")
		if made[name] {
			continue
		}
		var owner *Examined // the one whose ID the name begins with, the longest
		for _, x := range all {
			rest, ok := strings.CutPrefix(name, x.Experiment)
			if ok && strings.IndexAny(rest, "-.") == 0 && (owner == nil || len(owner.Experiment) < len(x.Experiment)) {
				owner = x
			}
		}
		if owner != nil && owner.Usable {
			owner = nil
		}
		of[owner] = append(of[owner], name)
	}
	var unusable []string
	for _, x := range all {
		if x.Usable {
			continue
		}
		unusable = append(unusable, x.Experiment)
		if len(of[x]) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: tables without usable records: %s: %s", files.FirstOf(dir, of[x]), x.file(), x.why()))
		}
	}
	if len(of[nil]) > 0 {
		what := "in no report: remove what reproduce did not write"
		if len(unusable) > 0 {
			what = fmt.Sprintf("in no report that has usable records, which %s have not", strings.Join(unusable, ", "))
		}
		wrong = append(wrong, files.FirstOf(dir, of[nil])+": "+what)
	}
	return wrong, nil
}
