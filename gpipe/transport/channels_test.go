package transport_test

import (
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/transporttest"
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
