package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe/plan"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/testkit"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// An operation that was timed itself takes that time, whatever its kind's rate;
// the others take the same as before.
func TestShapesGoBeforeRates(t *testing.T) {
	p := small.pipeline(t)
	a := &accelerator.Accelerator{Name: "host", F32: 1e11, Memory: 1 << 40, Bandwidth: 1e10, Lanes: 1, Packing: true}
	p.Devices = []Device{DeviceOf(a)}
	p.Partitions, p.MicroBatches = 1, 2
	n := must(p.modelled(InputOf(small.data(1)), Modelling{DType: graph.F32}))(t)
	prog := n.ProgramsFor(MicroBatchSizes(small.batch, 2)[0], plan.Training)[0].Forward
	before := a.Seconds(prog, graph.F32)
	shape, times := prog.Instrs[0].Shape(), 0
	var own float64
	for i := range prog.Instrs {
		if prog.Instrs[i].Shape() == shape {
			times++
			own += a.Seconds(&program.Program{Instrs: prog.Instrs[i : i+1]}, graph.F32)
		}
	}
	a.Shapes = map[string]float64{shape: 3}
	if got, want := a.Seconds(prog, graph.F32), before-own+3*float64(times); times == 0 || math.Abs(got-want) > 1e-9 {
		t.Errorf("%v s, want %v with %d times %s", got, want, times, shape)
	}
}

// A calibrated accelerator is written to a file and read back unchanged.
func TestCalibrationIsAFile(t *testing.T) {
	c := &accelerator.Calibration{}
	p := small.pipeline(t)
	p.Devices = []Device{{Kind: Emulated}}
	p.Partitions, p.MicroBatches = 2, 3
	tr, r := run(t, small, p)
	planned := tr.Plans()[0]
	c.Moved(accelerator.Clear, planned.ClearBytes(), r.Times.Stages[0].Setup)
	c.Moved(accelerator.Update, planned.UpdateBytes(), r.Times.Stages[0].Update)
	watched := map[*program.Instr]bool{}
	tr.Watch(func(run KernelRun) {
		watched[run.Instr] = true
		c.Watch(run.Instr, run.Seconds)
	})
	stepped(t, tr, small.data(1))
	want := 0
	for _, stages := range tr.net.ProgramsFor(MicroBatchSizes(small.batch, 3)[0], plan.Training) {
		want += len(stages.Forward.Instrs) + len(stages.Keep.Instrs) + len(stages.Backward.Instrs)
	}
	if len(watched) < want {
		t.Errorf("%d instructions watched, the programs of the first micro-batch have %d", len(watched), want)
	}
	c.Tasks([][]float64{r.Times.Tasks()}, 3)
	joined := &accelerator.Calibration{}
	joined.Join(c)
	c = joined
	a := &accelerator.Accelerator{Name: "host", Description: `a "machine"`, F32: 1e11, Memory: 1 << 30, Bandwidth: 1e10, Lanes: 16, Tiled: true, Packing: true, Sources: map[string]string{"flops": "measured"}}
	c.Fit(a)
	c.Shapes(a)
	if a.Ops["matmul"] == (accelerator.OpRate{}) || a.Ops["layer-norm"] == (accelerator.OpRate{}) || a.Ops["update"] == (accelerator.OpRate{}) || a.Ops["clear"] == (accelerator.OpRate{}) {
		t.Errorf("rates of %+v", a.Ops)
	}
	again := testkit.Must(accelerator.Read("host.yaml", []byte(a.Text())))(t, "in\n%s", a.Text())
	testkit.Equal(t, cmp.Diff(a, again, cmpopts.EquateApprox(1e-5, 0)), "", "read again (-want +got)")
}
