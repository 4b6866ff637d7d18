package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Where a process listens, and how it takes connections.

// directory is DIR of an address unix:DIR.
func directory(address string) (dir string, unix bool) { return strings.CutPrefix(address, "unix:") }

// overMPI reports whether an address is mpi:RANK, which a Network of MPI's has.
func overMPI(address string) bool { return strings.HasPrefix(address, "mpi:") }

// Nameless says that the system has Unix sockets without a file, of which nothing is left
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
	if own := first.LocalAddr().String(); overMPI(own) {
		return e.listenAt("mpi", own)
	}
	host, _, err := net.SplitHostPort(first.LocalAddr().String())
	if err != nil {
		return err
	}
	return e.listenAt("tcp", net.JoinHostPort(host, "0"))
}

func (e *End) listenAt(network, address string) (err error) {
	if e.listener, err = e.Network.Listen(context.Background(), network, address); err == nil {
		e.running.Go(e.accept)
	}
	return err
}

// accept takes connections until the listener is closed.
func (e *End) accept() {
	for {
		e.room <- struct{}{}
		conn, err := e.listener.Accept()
		if err != nil {
			<-e.room
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // such as too many open files
			continue
		}
		if !e.keep(conn) {
			<-e.room
			return
		}
		e.running.Go(func() {
			defer func() { <-e.room }()
			if err := e.welcome(conn); err != nil {
				e.mu.Lock()
				e.refused = reason(err, handshakeLimit)
				e.mu.Unlock()
				e.drop(conn)
			}
		})
	}
}

// welcome takes in a connection, or says why not.
func (e *End) welcome(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(min(handshakeLimit, e.Limit))); err != nil {
		return err
	}
	said, err := answerCall(conn, e.Secret)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if r := said.Line; r != nil {
		if e.Owner(r.From) != said.Rank || e.Owner(r.To) != e.Rank() || *r != r.Line() {
			return fmt.Errorf("a line %v of rank %d to rank %d", r, said.Rank, e.Rank())
		}
		e.inLine(*r).put(conn)
		return nil
	}
	select {
	case e.arrivals <- arrival{conn, said}:
		return nil
	case <-e.met:
		return fmt.Errorf("rank %d comes late", said.Rank)
	case <-e.done:
		return net.ErrClosed
	}
}

// system is what the system says of an error, without addresses.
func system(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return reason(err, 0)
}
