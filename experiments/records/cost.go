package records

import (
	"encoding/json"
	"slices"
	"time"
)

// Cost is what the samples of a log have cost.
type Cost struct {
	// Seconds from each sample to the next, whatever process measured it. The first
	// sample's are not recorded, and a gap above pause is one between two runs.
	Seconds float64 `json:"seconds"`
	// Bytes is the most memory that a process which measured has had resident; of
	// samples without it, the most that the devices of a pipeline have used. 0: unknown.
	Bytes int64 `json:"memory_bytes,omitempty"`
}

const pause = 10 * time.Minute

// Cost returns what the log's samples have cost.
func (l *Log) Cost() Cost {
	var c Cost
	var devices int64
	var times []time.Time
	for _, r := range l.Samples {
		if at, err := time.Parse(time.RFC3339, r.Time); err == nil {
			times = append(times, at)
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
	slices.SortFunc(times, time.Time.Compare)
	for i := 1; i < len(times); i++ {
		if gap := times[i].Sub(times[i-1]); gap <= pause {
			c.Seconds += gap.Seconds()
		}
	}
	if c.Bytes == 0 {
		c.Bytes = devices
	}
	return c
}

// Plus returns the cost of one after the other.
func (c Cost) Plus(d Cost) Cost { return Cost{c.Seconds + d.Seconds, max(c.Bytes, d.Bytes)} }
