package sockets

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
)

// hostOf is the address of a rank's host.
func hostOf(rank int) string { return fmt.Sprintf("10.0.0.%d", rank+1) }

// memory is a network on which each rank has a host of its own.
type memory struct{ *transporttest.Network }

func newMemory(faults ...transporttest.Fault) memory {
	return memory{transporttest.NewNetwork(faults...)}
}

// inMemory is the config of a run.
func (m memory) inMemory(size int) Config {
	return Config{
		Size: size, Address: hostOf(0) + ":61000", Secret: secret, Owner: stages(size), Limit: 2 * time.Second,
		Where: func(rank int) string { return place.Stage(rank).String() },
	}
}

// at makes a config that of a rank.
func (m memory) at(rank int, c *Config) { c.Rank, c.Network = rank, m.Host(hostOf(rank)) }

// met connects ranks that must come together.
func (m memory) met(t *testing.T, size int) []*End {
	t.Helper()
	ends, errs := connect(m.inMemory(size), m.at)
	for _, err := range errs {
		testkit.NoError(t, err)
	}
	return ends
}

// closeAll ends all ranks' parts of a run at once.
func closeAll(ends []*End) {
	var all sync.WaitGroup
	for _, e := range ends {
		if e != nil {
			all.Go(func() { e.Close() })
		}
	}
	all.Wait()
}
