package sockets

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpipebench/gpipe/place"
)

// memory is a network of hosts in a synctest bubble, where time passes only while all
// wait.
type memory struct {
	mu        sync.Mutex
	listening map[string]*memoryListener // by address
	ports     int
	conns     []*memoryConn
	writes    int              // so far
	written   func(number int) // called before each of them; nil: nothing is done
	silent    map[string]bool  // hosts of which nothing goes out and to which nothing comes
	dead      map[string]bool  // hosts whose connections are closed
}

func newMemory() *memory {
	return &memory{listening: map[string]*memoryListener{}, silent: map[string]bool{}, dead: map[string]bool{}}
}

// host is the network as one host has it.
func (m *memory) host(name string) Network { return memoryHost{m, name} }

// silence cuts a host off without a word.
func (m *memory) silence(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent[host] = true
}

// kill closes a host's connections, as the death of its process does.
func (m *memory) kill(host string) {
	m.mu.Lock()
	m.dead[host] = true
	conns := m.conns
	m.mu.Unlock()
	for _, c := range conns {
		if c.local == host || c.remote == host {
			c.Close()
		}
	}
}

// is reports whether a set has one of two hosts.
func (m *memory) is(set map[string]bool, a, b string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return set[a] || set[b]
}

type memoryHost struct {
	*memory
	name string
}

func (h memoryHost) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if h.is(h.silent, h.name, to) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h.mu.Lock()
	l := h.listening[address]
	h.mu.Unlock()
	if l == nil || h.is(h.dead, h.name, to) {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	a, b := net.Pipe()
	own, their := &memoryConn{a, h.memory, h.name, to}, &memoryConn{b, h.memory, to, h.name}
	h.mu.Lock()
	h.conns = append(h.conns, own, their)
	h.mu.Unlock()
	select {
	case l.come <- their:
		return own, nil
	case <-l.closed:
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h memoryHost) Listen(_ context.Context, _, address string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if free, ok := strings.CutSuffix(address, ":0"); ok {
		h.ports++
		address = fmt.Sprintf("%s:%d", free, 1000+h.ports)
	}
	l := &memoryListener{memory: h.memory, address: address, come: make(chan net.Conn), closed: make(chan struct{})}
	h.listening[address] = l
	return l, nil
}

type memoryListener struct {
	*memory
	address string
	come    chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.come:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listening, l.address)
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr(l.address) }

type memoryConn struct {
	net.Conn
	*memory
	local, remote string // hosts
}

func (c *memoryConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	number := c.writes
	c.mu.Unlock()
	if c.written != nil {
		c.written(number)
	}
	if c.is(c.silent, c.local, c.remote) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *memoryConn) LocalAddr() net.Addr { return memoryAddr(c.local + ":1") }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// hostOf is the address of a rank's host.
func hostOf(rank int) string { return fmt.Sprintf("10.0.0.%d", rank+1) }

// inMemory is the config of a run of which each rank has a host of its own.
func (m *memory) inMemory(size int) Config {
	return Config{
		Size: size, Address: hostOf(0) + ":61000", Secret: secret, Owner: stages(size), Limit: 2 * time.Second,
		Where: func(rank int) string { return place.Stage(rank).String() },
	}
}

// at makes a config that of a rank.
func (m *memory) at(rank int, c *Config) { c.Rank, c.Network = rank, m.host(hostOf(rank)) }

// met connects ranks that must come together.
func (m *memory) met(t *testing.T, size int) []*End {
	t.Helper()
	ends, errs := connect(m.inMemory(size), m.at)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
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
