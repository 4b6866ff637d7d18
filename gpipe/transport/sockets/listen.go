package sockets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpipebench/gpipe/transport"
)

// Where a process listens, and how it takes connections.

// directory is DIR of an address unix:DIR.
func directory(address string) (dir string, unix bool) { return strings.CutPrefix(address, "unix:") }

// overMPI reports whether an address is mpi:RANK, which a Network of MPI's has.
func overMPI(address string) bool { return strings.HasPrefix(address, "mpi:") }

// Nameless says that the system has Unix sockets without a file, so that nothing is left
// however their process ends: the addresses unix:@NAME.
const Nameless = runtime.GOOS == "linux"

// nameless reports whether the sockets of a directory have no files.
func nameless(dir string) bool { return Nameless && strings.HasPrefix(dir, "@") }

// maxSocket is the most bytes of a socket's name that all systems take.
const maxSocket = 103

// socketIn is the name of a rank's socket.
func socketIn(dir string, rank int) string { return filepath.Join(dir, strconv.Itoa(rank)) }

// listen makes rank 0 listen at the run's address and nowhere else.
func (e *End) listen(address string) (err error) {
	if e.Listener != nil {
		e.acceptFrom(e.Listener)
		return nil
	}
	if dir, unix := directory(address); unix {
		if n := len(socketIn(dir, e.Size)); n > maxSocket {
			return fmt.Errorf("the names of its sockets have %d bytes: want a directory with at most %d, such as by a shorter TMPDIR", n, maxSocket-n+len(dir))
		}
		if err := e.makeDirectory(dir); err != nil {
			return err
		}
		return e.listenAt("unix", socketIn(dir, 0))
	}
	if overMPI(address) {
		return e.listenAt("mpi", address)
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	if at.IP == nil {
		return errors.New("want HOST:PORT, with the host whose network the run uses, or unix:DIR")
	}
	return e.listenAt("tcp", at.String())
}

// makeDirectory makes a directory that only this user can enter. One that exists must
// be such a one, and is emptied of sockets of a former run.
func (e *End) makeDirectory(dir string) error {
	if nameless(dir) {
		return nil
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		e.made = dir
		return nil
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := checkDirectory(dir); err != nil {
		return err
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range old {
		if f.Type()&os.ModeSocket != 0 {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDirectory is an error unless a directory is this user's, and nobody else may
// enter it.
func checkDirectory(dir string) error {
	if nameless(dir) {
		return nil
	}
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir() || st.Mode().Perm()&0o077 != 0 || !ours(st):
		return fmt.Errorf("%s: want a directory of this user's that no other may enter", dir)
	}
	return nil
}

// listenBeside makes a rank listen on the network by which it has reached rank 0.
func (e *End) listenBeside(first net.Conn) error {
	if dir, unix := directory(e.Address); unix {
		return e.listenAt("unix", socketIn(dir, e.Rank()))
	}
	own := first.LocalAddr().String()
	if overMPI(own) {
		return e.listenAt("mpi", own)
	}
	host, _, err := net.SplitHostPort(own)
	if err != nil {
		return err
	}
	return e.listenAt("tcp", net.JoinHostPort(host, "0"))
}

func (e *End) listenAt(network, address string) error {
	l, err := e.Network.Listen(context.Background(), network, address)
	if err == nil {
		e.acceptFrom(l)
	}
	return err
}

func (e *End) acceptFrom(l net.Listener) {
	e.listener = l
	e.running.Go(e.accept)
}

// accept takes connections until the listener is closed.
func (e *End) accept() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			wait(e.life, 10*time.Millisecond) // such as too many open files
			continue
		}
		if !e.keep(conn) {
			return
		}
		k := e.knock(conn)
		e.running.Go(func() {
			if err := e.welcome(k); err != nil {
				e.refused.Store(reason(err, openingLimit))
				e.drop(conn)
			}
		})
	}
}

// knock is a connection that has not proved that its caller knows the secret.
type knock struct {
	net.Conn
	from string // the caller's host
}

// knock adds a connection to those that have to prove themselves. If there is no place for
// it, the oldest is dropped of the host with the most of them.
func (e *End) knock(conn net.Conn) *knock {
	k := &knock{conn, ""}
	if at := conn.RemoteAddr(); at != nil {
		k.from = at.String()
		if host, _, err := net.SplitHostPort(k.from); err == nil {
			k.from = host
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.knocking = append(e.knocking, k); len(e.knocking) <= places {
		return k
	}
	of := map[string]int{}
	for _, k := range e.knocking {
		of[k.from]++
	}
	most := slices.Max(slices.Collect(maps.Values(of)))
	victim := slices.IndexFunc(e.knocking, func(k *knock) bool { return of[k.from] == most })
	e.knocking[victim].Close() // its welcome ends
	e.knocking = slices.Delete(e.knocking, victim, victim+1)
	return k
}

// proved takes a connection from those that have to prove themselves, whether it has or not.
func (e *End) proved(k *knock) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.knocking = slices.DeleteFunc(e.knocking, func(other *knock) bool { return other == k })
}

// hear is a caller's hello.
func (e *End) hear(k *knock) (said hello, err error) {
	defer e.proved(k)
	start := time.Now()
	_ = k.SetDeadline(start.Add(min(openingLimit, e.Limit))) // an error here and below: it is closed
	their, err := opening(k)
	if err != nil {
		return said, err
	}
	_ = k.SetDeadline(start.Add(min(handshakeLimit, e.Limit)))
	said, err = answerCall(k, e.Secret, their)
	_ = k.SetDeadline(time.Time{})
	return said, err
}

// welcome takes in a connection, or says why not.
func (e *End) welcome(k *knock) error {
	said, err := e.hear(k)
	if err != nil {
		return err
	}
	if r := said.Line; r != nil {
		err = e.takeLine(k.Conn, said.Rank, *r)
	} else {
		select {
		case e.arrivals <- arrival{newReader(e.life, k.Conn, e.Limit), said}:
		case <-e.met:
			err = fmt.Errorf("rank %d comes late: want each rank once", said.Rank)
		case <-e.life.Done():
			return net.ErrClosed
		}
	}
	if err != nil {
		refuse(k.Conn, err)
	}
	return err
}

// takeLine takes in a line of a rank.
func (e *End) takeLine(conn net.Conn, rank int, r transport.Route) error {
	if e.Owner(r.From) != rank || e.Owner(r.To) != e.Rank() || rank == e.Rank() || r != r.Line() {
		return fmt.Errorf("a line %v of rank %d to rank %d", r, rank, e.Rank())
	}
	if !e.inLine(r).put(conn) {
		return fmt.Errorf("a second line of %s, where there is one", namesOf(r))
	}
	send(conn, frame{kind: noted})
	return nil
}
