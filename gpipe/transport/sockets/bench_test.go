package sockets

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/units"
)

// BenchmarkLine compares a line of tensors, of 1 MiB as a reduction's messages have to 64 MiB,
// with plain writes and reads of the same bytes over a connection of the same kind, in turns.
func BenchmarkLine(b *testing.B) {
	for _, floats := range []int{1 << 18, 1 << 20, 1 << 22, 1 << 24} {
		b.Run(units.FormatBytes(int64(4*floats)), func(b *testing.B) { benchmarkLine(b, floats) })
	}
}

func benchmarkLine(b *testing.B, floats int) {
	x, y := make([]float32, floats), make([]float32, floats)
	for _, kind := range []struct {
		name    string
		address func(testing.TB) string
	}{{"unix", unixAddress}, {"tcp", freeAddress}} {
		b.Run(kind.name+"/line", func(b *testing.B) {
			ends, errs := connect(Config{Size: 2, Address: kind.address(b), Secret: secret, Owner: stages(2)}, nil)
			if err := errors.Join(errs...); err != nil {
				b.Fatal(err)
			}
			s, r := ends[0].Begin(), ends[1].Begin()
			to := transport.Route{From: place.Stage(0), To: place.Stage(1), What: transport.GroupGradient}
			b.SetBytes(int64(4 * len(x)))
			var all sync.WaitGroup
			all.Go(func() {
				for range b.N {
					if err := s.Send(b.Context(), to, [][]float32{x}); err != nil {
						b.Error(err)
					}
				}
			})
			for range b.N {
				if err := r.Receive(b.Context(), to, [][]float32{y}, func() {}); err != nil {
					b.Fatal(err)
				}
			}
			all.Wait()
			b.StopTimer()
			for _, e := range ends {
				all.Go(func() { e.Close() })
			}
			all.Wait()
		})
		b.Run(kind.name+"/plain", func(b *testing.B) {
			network, address := "tcp", "127.0.0.1:0"
			if kind.name == "unix" {
				network, address = "unix", b.TempDir()+"/s"
			}
			l, err := net.Listen(network, address)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			out, err := net.Dial(network, l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer out.Close()
			in, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer in.Close()
			b.SetBytes(int64(4 * len(x)))
			var all sync.WaitGroup
			all.Go(func() {
				for range b.N {
					if _, err := out.Write(memoryOf(x)); err != nil {
						b.Error(err)
					}
				}
			})
			for range b.N {
				if _, err := io.ReadFull(in, memoryOf(y)); err != nil {
					b.Fatal(err)
				}
			}
			all.Wait()
		})
	}
}
