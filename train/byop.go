package train

import (
	"context"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
)

// ByOp is where the time of steps goes, by operation.
type ByOp struct {
	StepSeconds float64          `json:"step_seconds"` // mean of the steps
	Roof        accelerator.Roof `json:"roof"`         // of one device with all its parts, measured after them
	Rows        []OpRow          `json:"rows"`         // their seconds add up to the step's, times the devices
}

// OpRow is a row of a profile beside the roofline.
type OpRow struct {
	gpipe.ProfileRow
	// OfRoof is the least time by the roofline over the row's: above 1 if operands were in
	// a cache, 0 of a row that neither computes nor moves anything of its own.
	OfRoof float64 `json:"of_roof"`
}

// byOp reads a profile, and measures the roofline of a device: parts compute beside
// each other on the host, and as if they did on emulated devices.
func byOp(ctx context.Context, p *gpipe.Profile, s Setup) (*ByOp, error) {
	threads, alone := max(s.Threads, 1)*s.parts(), 1
	if s.Device == gpipe.Emulated {
		threads, alone = max(s.Threads, 1), s.parts()
	}
	roof, err := accelerator.MeasureRoof(ctx, threads)
	if err != nil {
		return nil, err
	}
	roof.Threads *= alone
	roof.FLOPs *= float64(alone)
	roof.Bandwidth *= float64(alone)
	all := &ByOp{StepSeconds: p.StepSeconds(), Roof: roof}
	for _, row := range p.Rows() {
		of := OpRow{ProfileRow: row}
		if row.Seconds > 0 {
			of.OfRoof = roof.Seconds(row.FLOPs, row.Bytes) / row.Seconds
		}
		all.Rows = append(all.Rows, of)
	}
	return all, nil
}
