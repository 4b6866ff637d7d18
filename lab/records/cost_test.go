package records

import (
	"testing"

	"gpipebench/internal/testkit"
)

// Seconds are those between samples less long pauses, memory that of the process, or of
// all devices where the process's is not recorded.
func TestCost(t *testing.T) {
	l := New(Key{Experiment: "x"})
	session := func(id, time string) { l.Put(&Record{Session: id, Provenance: &Provenance{Time: time}}) }
	sample := func(name, session, time, data string, rss int64) {
		l.Put(&Record{Session: session, Sample: name, Time: time, RSS: rss, Data: []byte(data)})
	}
	session("a", "2026-01-01T00:00:00Z")
	sample("1", "a", "2026-01-01T00:00:10Z", `{"high_water_bytes":[3,4]}`, 0)
	sample("2", "a", "2026-01-01T00:00:05Z", `{"high_water_bytes":[5,1]}`, 0)
	session("b", "2026-01-02T00:00:00Z")
	sample("3", "b", "2026-01-02T00:01:00Z", `0.5`, 0)
	testkit.Equal(t, l.Cost(), (Cost{Seconds: 5, Bytes: 7}))
	sample("4", "b", "2026-01-02T00:01:01Z", `[]`, 99)
	testkit.Equal(t, l.Cost().Plus(Cost{9, 3, 100}), (Cost{15, 3, 100}))
	// Its process ran while nothing ended for an hour.
	sample("5", "b", "2026-01-02T01:01:01Z", `[]`, 99)
	testkit.Equal(t, l.Cost(), (Cost{Seconds: 3606, Bytes: 99}))
	// Sessions that say how long they took until a sample: all of it, the first sample's too.
	for _, r := range []Record{{Session: "c", Sample: "6", Elapsed: 20, Processor: 30}, {Session: "c", Sample: "7", Elapsed: 25, Processor: 41}, {Session: "d", Sample: "8", Elapsed: 2, Processor: 2}} {
		r.Data = []byte(`[]`)
		l.Put(&r)
	}
	testkit.Equal(t, l.Cost(), (Cost{3606 + 27, 43, 99}))
	testkit.Equal(t, New(Key{}).Cost(), (Cost{}), "of nothing")
}
