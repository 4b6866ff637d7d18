package cluster

import (
	"fmt"
	"hash/fnv"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// Where rank 0 is, as engines tell it. Ports are made of the job's number, so that two
// jobs on a machine rarely meet.

// portOf is a port above those that systems give away by themselves.
func portOf(job string) string {
	h := fnv.New32a()
	h.Write([]byte(job))
	return strconv.Itoa(61000 + int(h.Sum32()%4000))
}

// ofOpenMPI takes the address of mpirun, which rank 0 usually runs beside:
// 1234.0;tcp://10.0.0.1,192.168.0.1:41234 or 1234.0;tcp6://[2001:db8::1]:41234.
func ofOpenMPI(get func(string) string) (string, error) {
	uri := get("OMPI_MCA_orte_hnp_uri")
	m := hnp.FindStringSubmatch(uri)
	if m == nil {
		return "", fmt.Errorf("OMPI_MCA_orte_hnp_uri=%q has no address of mpirun", uri)
	}
	return net.JoinHostPort(m[2]+m[3], portOf(m[1])), nil
}

var hnp = regexp.MustCompile(`^"?([0-9.]+);tcp[46]?://(?:([0-9.]+)[,:]|\[([0-9a-fA-F.:]+)[],])`)

// ofSlurm takes the first host of the step.
func ofSlurm(get func(string) string) (string, error) {
	list := get("SLURM_STEP_NODELIST")
	host, err := firstHost(list)
	if err != nil {
		return "", fmt.Errorf("SLURM_STEP_NODELIST=%q: %w", list, err)
	}
	return net.JoinHostPort(host, portOf(get("SLURM_JOB_ID")+"."+get("SLURM_STEP_ID"))), nil
}

// firstHost is the first of a list of hosts as Slurm writes it: node[003-007,9]-ib,other.
func firstHost(list string) (string, error) {
	var host strings.Builder
	for rest := list; rest != "" && rest[0] != ','; {
		if rest[0] != '[' {
			host.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		inside, after, ok := strings.Cut(rest[1:], "]")
		first := inside
		if i := strings.IndexAny(inside, ",-"); i >= 0 {
			first = inside[:i]
		}
		if !ok || first == "" {
			return "", fmt.Errorf("want hosts such as node[1-4]")
		}
		host.WriteString(first)
		rest = after
	}
	if host.Len() == 0 {
		return "", fmt.Errorf("want hosts such as node[1-4]")
	}
	return host.String(), nil
}

// ofTorchrun takes the master's address, and the next port if the master listens at it
// already.
func ofTorchrun(get func(string) string) (string, error) {
	port, err := number(get, "MASTER_PORT", 1, 1<<16-2)
	if err != nil {
		return "", err
	}
	if get("TORCHELASTIC_USE_AGENT_STORE") == "True" {
		port++
	}
	return net.JoinHostPort(get("MASTER_ADDR"), strconv.Itoa(port)), nil
}
