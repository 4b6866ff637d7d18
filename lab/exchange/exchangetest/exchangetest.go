// Package exchangetest runs exchanges for tests.
package exchangetest

import (
	"encoding/json"
	"testing"

	"golang.org/x/sync/errgroup"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/testkit"
	"gpipebench/lab/exchange"
)

// Run runs a job over ranks that are processes of their own to the transport, and returns what
// each has been told of all of them.
func Run[O any](t *testing.T, ranks int, j exchange.Job) [][]O {
	t.Helper()
	ends := transport.Ends(ranks, func(p place.Place) int { return p.Replica })
	all := make([][]O, ranks)
	var g errgroup.Group
	for rank := range ranks {
		g.Go(func() error {
			told, err := exchange.Run(t.Context(), ends[rank], ranks, rank, j)
			for _, text := range told {
				var o O
				if err := json.Unmarshal(text, &o); err != nil {
					return err
				}
				all[rank] = append(all[rank], o)
			}
			return err
		})
	}
	testkit.NoError(t, g.Wait())
	return all
}
