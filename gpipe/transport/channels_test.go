package transport_test

import (
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/transporttest"
	"gpipebench/internal/testkit"
)

var _ transport.Transport = (*transport.Channels)(nil)

func TestChannels(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{Open: open})
}

func open(t *testing.T, ranks int, owner func(place.Place) int) transporttest.Cluster {
	ends := transport.Ends(ranks, owner)
	c := transporttest.Cluster{Kill: func(rank int) { ends[rank].Close() }, Close: func() {}}
	for _, end := range ends {
		c.Ends = append(c.Ends, end)
	}
	return c
}

// The text of a route names its places.
func TestRouteString(t *testing.T) {
	r := transport.Route{From: place.Stage(1), To: place.Stage(0), What: transport.Gradient, Index: 3}
	testkit.Equal(t, r.String(), "gradient 3 from stage 1 to stage 0")
}
