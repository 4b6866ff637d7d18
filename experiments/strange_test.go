package experiments

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
)

// Records that lack what a report counts on, or contradict it, are an error in one
// line that names the sample. Of a sample of the reference, every member is left out
// once, and every list is empty once.
func TestStrangeRecordsAreAnError(t *testing.T) {
	for id, name := range map[string]string{
		"ablation": "", "breakdown": "", "consistency": "", "learning": "", "stability": "", "translation": "network",
	} {
		t.Run(id, func(t *testing.T) {
			e := testkit.Must(Load(id))(t)
			log := testkit.Must(records.Load(records.File(filepath.Join("..", "results", "reference"), id), id))(t)
			if name == "" {
				name = log.Names[0]
			}
			whole := log.Samples[name]
			testkit.Must(e.Report(log, nil))(t)
			for what, text := range mutants(t, whole.Data) {
				strange := *whole
				strange.Data = text
				log.Samples[name] = &strange
				if _, err := e.Report(log, nil); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v, want one line with %s", what, err, name)
				}
			}
		})
	}
}

// mutants are the text of a sample with one thing changed, by what that is. What is
// there on some samples only, and what is only shown, may be missing.
func mutants(t *testing.T, text []byte) map[string][]byte {
	var all map[string]any
	testkit.NoError(t, json.Unmarshal(text, &all))
	out := map[string][]byte{}
	for name, member := range all {
		if slices.Contains([]string{"text", "go_version", "bytes", "floor", "partition_note", "eval", "groups", "replicas", "devices"}, name) {
			continue
		}
		delete(all, name)
		out["without "+name] = encoded(t, all)
		if list, ok := member.([]any); ok && len(list) > 0 && slices.Contains([]string{"cuts", "f", "losses", "grad_norms", "baselines"}, name) {
			all[name] = []any{}
			out["empty "+name] = encoded(t, all)
		}
		all[name] = member
	}
	return out
}

func encoded(t *testing.T, v any) []byte {
	return testkit.Must(json.Marshal(v))(t)
}
