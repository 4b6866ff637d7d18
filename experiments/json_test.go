package experiments

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"gpipebench/internal/floatjson"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// Every number is printed, recorded and read back, also those that JSON does not
// have; and what JSON has is written as the standard library writes it.
func TestJSON(t *testing.T) {
	type numbers struct {
		A float64            `json:"a"`
		B []float64          `json:"b"`
		C *float64           `json:"c,omitempty"`
		D map[string]float64 `json:"d"`
		E float64            `json:"e,omitempty"`
	}
	inf := math.Inf(1)
	v := numbers{A: inf, B: []float64{1, math.Inf(-1), 2.5e-300}, C: &inf, D: map[string]float64{"x": -inf}}
	var b bytes.Buffer
	testkit.NoError(t, floatjson.Write(&b, v))
	testkit.Equal(t, strings.Join(strings.Fields(b.String()), ""), `{"a":"Infinity","b":[1,"-Infinity",2.5e-300],"c":"Infinity","d":{"x":"-Infinity"}}`)
	log := records.New(records.Key{})
	testkit.NoError(t, log.Add("sample", 1, v))
	var back numbers
	testkit.NoError(t, log.Get("sample", &back))
	testkit.EqualDeep(t, back, v)
	testkit.NoError(t, log.Add("nan", 1, []float64{math.NaN()}))
	var nan []float64
	testkit.NoError(t, log.Get("nan", &nan))
	testkit.Equal(t, fmt.Sprint(nan), "[NaN]")
	testkit.Fails(t, floatjson.Unmarshal([]byte(`["1"]`), &nan), "want a number")

	top := 0.5
	r := train.Result{Losses: []float64{}, Eval: &train.Evaluation{Loss: 1e21, Top1: &top}, PeakBytes: []int64{1}, Note: "<&>\u2028", KernelProfile: "x"}
	want := testkit.Must(json.MarshalIndent(r, "", "  "))(t)
	line := testkit.Must(json.Marshal(r))(t)
	testkit.Equal(t, string(testkit.Must(floatjson.Marshal(r))(t)), string(line))
	b.Reset()
	testkit.NoError(t, floatjson.Write(&b, r))
	testkit.Equal(t, b.String(), strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(want))+"\n")
}
