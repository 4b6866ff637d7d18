package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"gpipebench/internal/files"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
)

// A step changes the digest and the sum of its own lines, and no other byte.
func TestRewritten(t *testing.T) {
	var text bytes.Buffer
	add := func(k records.Key, sample string) []byte {
		line := testkit.Must((&records.Record{Session: "s", Key: k, Sample: sample, Seed: 7, Data: json.RawMessage(`{"loss":0.10000000000000001,"note":"old"}`)}).Encode())(t)
		text.Write(append(line, '\n'))
		return line
	}
	mine := add(records.Key{Experiment: "e", Profile: "quick", Spec: "old", Machine: "m"}, "a")
	others := [][]byte{
		add(records.Key{Experiment: "e", Profile: "full", Spec: "old", Machine: "m"}, "a"),
		add(records.Key{Experiment: "e", Profile: "quick", Spec: "older", Machine: "m"}, "a"),
		add(records.Key{Experiment: "f", Profile: "quick", Spec: "old", Machine: "m"}, "a"),
		bytes.Replace(mine, []byte("0.1"), []byte("0.2"), 1), // damaged
	}
	text.Write(append(others[3], '\n'))
	to := testkit.Must(rewritten(text.Bytes(), []step{{"e", "quick", "old", "new"}}))(t)
	lines := bytes.Split(to, []byte("\n"))
	if len(lines) != 6 {
		t.Fatalf("%d lines, want 6 with the empty one", len(lines))
	}
	r, err := records.DecodeRecord(bytes.Clone(lines[0]))
	if err != nil || r.Spec != "new" || r.Sample != "a" || r.Seed != 7 || !bytes.Contains(lines[0], []byte(`"data":{"loss":0.10000000000000001,"note":"old"}`)) {
		t.Errorf("%s: %+v, %v", lines[0], r, err)
	}
	for i, want := range others {
		if !bytes.Equal(lines[1+i], want) {
			t.Errorf("line %d became %s, want %s", 1+i, lines[1+i], want)
		}
	}
}

// A file that a run adds to is not replaced.
func TestRewriteInUse(t *testing.T) {
	dir := t.TempDir()
	log, err := records.Open(records.File(dir, "e"), records.Key{Experiment: "e"}, false)
	testkit.NoError(t, err)
	defer log.Close()
	testkit.Is(t, run([]string{dir}), files.ErrInUse)
}

// What keys.txt has is whole: no digest is left in two ways, or returned to.
func TestKeys(t *testing.T) {
	all, err := steps(keys)
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	from := map[step]bool{}
	for _, s := range all {
		if k := (step{s.experiment, s.profile, s.from, ""}); from[k] || s.from == s.to {
			t.Errorf("%+v is there twice", s)
		} else {
			from[k] = true
		}
	}
	for _, s := range all {
		if from[step{s.experiment, s.profile, s.to, ""}] {
			t.Errorf("%+v: want the digest that it has in the end", s)
		}
	}
	testkit.Refused(steps("a quick 12\n"))(t, "want experiment")
}
