package train_test

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/train/traintest"
)

// A log has the losses of all steps and evaluations, to the last bit.
func TestLog(t *testing.T) {
	tr := traintest.TinyTraining()
	tr.Steps, tr.EvalEvery, tr.Log = 4, 2, filepath.Join(t.TempDir(), "losses.csv")
	r := testkit.Must(tr.Run(t.Context(), nil))(t)
	losses, held := map[int]float64{}, map[int]float64{}
	for _, row := range rowsOf(t, tr.Log) {
		step := testkit.Must(strconv.Atoi(row["step"]))(t)
		if row["loss"] != "" {
			losses[step] = number(t, row["loss"])
			if number(t, row["examples_per_second"]) <= 0 || number(t, row["step_seconds"]) <= 0 || number(t, row["lr"]) <= 0 {
				t.Errorf("step %v", row)
			}
		} else {
			held[step] = number(t, row["held_out_loss"])
		}
	}
	for i, loss := range r.Losses {
		testkit.Equal(t, losses[i+1], loss, "step %d", i+1)
	}
	if len(losses) != 4 || len(held) != 2 || held[2] != r.Evals[0].Loss || held[4] != r.Eval.Loss {
		t.Errorf("losses %v, held out %v; want %v, %v and %v", losses, held, r.Losses, r.Evals[0].Loss, r.Eval.Loss)
	}
}

// rowsOf reads a file of comma-separated values.
func rowsOf(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	text := testkit.Must(os.ReadFile(name))(t)
	lines := testkit.Must(csv.NewReader(bytes.NewReader(text)).ReadAll())(t)
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, v := range line {
			row[lines[0][i]] = v
		}
		rows = append(rows, row)
	}
	return rows
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) {
		t.Errorf("%q: want a number", text)
	}
	return v
}
