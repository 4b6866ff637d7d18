package records

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Cost is what the samples of a log have cost.
type Cost struct {
	// Seconds that processes took until their last samples; of records of earlier versions, from each sample to the
	// next, whatever process measured it. The first sample's are not recorded there, and a gap above pause
	// before a process's first sample is one between two runs.
	Seconds float64 `json:"seconds"`
	// Processor is the processor seconds of these processes. 0: not recorded.
	Processor float64 `json:"-"`
	// Bytes is the most memory that a process which measured has had resident; of
	// samples without it, the most that the devices of a pipeline have used. 0: unknown.
	Bytes int64 `json:"memory_bytes,omitempty"`
}

const pause = 10 * time.Minute

// Cost returns what the log's samples have cost.
func (l *Log) Cost() Cost {
	var c Cost
	var devices int64
	type made struct {
		at      time.Time
		session string
	}
	var times []made
	elapsed, processor := map[string]float64{}, map[string]float64{} // of sessions until their last samples
	for _, r := range l.Samples {
		if r.Elapsed > 0 {
			elapsed[r.Session], processor[r.Session] = max(elapsed[r.Session], r.Elapsed), max(processor[r.Session], r.Processor)
		}
		if at, err := time.Parse(time.RFC3339, r.Time); err == nil && r.Elapsed == 0 {
			times = append(times, made{at, r.Session})
		}
		c.Bytes = max(c.Bytes, r.RSS)
		var used struct {
			Devices []int64 `json:"high_water_bytes"`
		}
		if json.Unmarshal(r.Data, &used) != nil {
			continue // a sample of another form
		}
		var sum int64
		for _, bytes := range used.Devices {
			sum += bytes
		}
		devices = max(devices, sum)
	}
	slices.SortFunc(times, func(a, b made) int { return a.at.Compare(b.at) })
	for _, session := range slices.Sorted(maps.Keys(elapsed)) { // in one order, so that sums are the same
		c.Seconds += elapsed[session]
		c.Processor += processor[session]
	}
	running := map[string]bool{}
	for i, t := range times {
		if i > 0 {
			if gap := t.at.Sub(times[i-1].at); gap <= pause || running[t.session] {
				c.Seconds += gap.Seconds()
			}
		}
		running[t.session] = true
	}
	if c.Bytes == 0 {
		c.Bytes = devices
	}
	return c
}

// Plus returns the cost of one after the other.
func (c Cost) Plus(d Cost) Cost {
	return Cost{c.Seconds + d.Seconds, c.Processor + d.Processor, max(c.Bytes, d.Bytes)}
}
