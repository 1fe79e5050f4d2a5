package pvetest

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

type handler func(c *Cluster, r call) (any, *refusal)

// handlers answer the endpoints, by method and template. "{kind}" stands for both kinds of
// guest.
var handlers = map[string]handler{
	"GET /version":             version,
	"GET /nodes":               nodeList,
	"GET /cluster/nextid":      nextID,
	"GET /cluster/resources":   resources,
	"GET /cluster/replication": replication,
	"GET /access/permissions":  permissions,

	"GET /nodes/{node}/tasks":               taskList,
	"GET /nodes/{node}/tasks/{upid}/status": taskStatus,
	"GET /nodes/{node}/tasks/{upid}/log":    taskLog,
	"DELETE /nodes/{node}/tasks/{upid}":     taskStop,

	"GET /nodes/{node}/{kind}":                         guestList,
	"POST /nodes/{node}/{kind}":                        guestCreate,
	"DELETE /nodes/{node}/{kind}/{vmid}":               guestDelete,
	"GET /nodes/{node}/{kind}/{vmid}/config":           configGet,
	"PUT /nodes/{node}/{kind}/{vmid}/config":           configSet,
	"POST /nodes/{node}/{kind}/{vmid}/config":          configSet,
	"GET /nodes/{node}/{kind}/{vmid}/pending":          pendingList,
	"GET /nodes/{node}/{kind}/{vmid}/status/current":   statusCurrent,
	"POST /nodes/{node}/{kind}/{vmid}/status/start":    guestStart,
	"POST /nodes/{node}/{kind}/{vmid}/status/stop":     guestStop,
	"POST /nodes/{node}/{kind}/{vmid}/status/shutdown": guestShutdown,
	"POST /nodes/{node}/{kind}/{vmid}/status/reboot":   guestReboot,
	"POST /nodes/{node}/{kind}/{vmid}/clone":           guestClone,
	"POST /nodes/{node}/{kind}/{vmid}/template":        guestTemplate,
	"PUT /nodes/{node}/{kind}/{vmid}/resize":           guestResize,
	"PUT /nodes/{node}/{kind}/{vmid}/unlink":           guestUnlink,
	"POST /nodes/{node}/{kind}/{vmid}/move_disk":       guestMove,
	"POST /nodes/{node}/{kind}/{vmid}/move_volume":     guestMove,

	"GET /nodes/{node}/{kind}/{vmid}/snapshot":                      snapshotList,
	"POST /nodes/{node}/{kind}/{vmid}/snapshot":                     snapshotMake,
	"DELETE /nodes/{node}/{kind}/{vmid}/snapshot/{snapname}":        snapshotDelete,
	"GET /nodes/{node}/{kind}/{vmid}/snapshot/{snapname}/config":    snapshotConfig,
	"POST /nodes/{node}/{kind}/{vmid}/snapshot/{snapname}/rollback": snapshotRollback,

	"POST /nodes/{node}/vzdump":                               vzdump,
	"GET /nodes/{node}/vzdump/extractconfig":                  extractConfig,
	"GET /nodes/{node}/storage":                               storageList,
	"GET /nodes/{node}/storage/{storage}/status":              storageStatus,
	"GET /nodes/{node}/storage/{storage}/content":             contentList,
	"GET /nodes/{node}/storage/{storage}/content/{volume}":    volumeGet,
	"PUT /nodes/{node}/storage/{storage}/content/{volume}":    volumeSet,
	"DELETE /nodes/{node}/storage/{storage}/content/{volume}": volumeDelete,
}

// do answers a request that followed the schema.
func (c *Cluster) do(r call) (any, *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused := c.reach(r); refused != nil {
		return nil, refused
	}
	if refused := c.permit(r); refused != nil {
		return nil, refused
	}
	if r.flag("skiplock") {
		return nil, invalid("skiplock", "Only root may use this option.")
	}
	key := r.Method + " " + strings.Replace(r.Path, "/"+r.kind(), "/{kind}", 1)
	if h := handlers[key]; h != nil {
		return h(c, r)
	}
	if h := handlers[r.Method+" "+r.Path]; h != nil {
		return h(c, r)
	}
	c.violations = append(c.violations, r.Method+" "+r.Path+": in the schema, and not simulated")
	return nil, &refusal{status: 501, reason: "not simulated"}
}

// reach refuses a request for a node that does not exist or does not answer.
func (c *Cluster) reach(r call) *refusal {
	name, ok := r.v["node"]
	if !ok {
		return nil
	}
	for _, n := range c.nodes {
		if n.name != name {
			continue
		}
		if n.offline {
			return &refusal{status: 595, reason: "No route to host"}
		}
		return nil
	}
	return &refusal{status: 500, reason: "hostname lookup '" + name + "' failed - failed to get address info for: " +
		name + ": Name or service not known"}
}

func version(c *Cluster, _ call) (any, *refusal) {
	release, _, _ := strings.Cut(c.version, ".")
	return map[string]any{"version": c.version, "release": release + "." + strings.Split(c.version+".0", ".")[1],
		"repoid": "3fc2f5d2c4d6d1b6"}, nil
}

func nodeList(c *Cluster, _ call) (any, *refusal) {
	rows := []any{}
	for _, n := range c.nodes {
		row := map[string]any{"node": n.name, "id": "node/" + n.name, "type": "node", "status": "online", "level": ""}
		if n.offline {
			row["status"] = orElse(n.said, "offline")
		} else {
			row["maxcpu"], row["maxmem"], row["mem"], row["uptime"], row["cpu"] = 8, 32<<30, 4<<30, 1000, 0.1
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func nextID(c *Cluster, r call) (any, *refusal) {
	if r.has("vmid") {
		if c.guests[r.vmid()] != nil {
			return nil, invalid("vmid", "VM "+r.v["vmid"]+" already exists")
		}
		return r.v["vmid"], nil
	}
	for id := 100; ; id++ {
		if c.guests[id] == nil {
			return strconv.Itoa(id), nil
		}
	}
}

// resources is the single list of all guests, storages and nodes.
func resources(c *Cluster, r call) (any, *refusal) {
	rows := []any{}
	want := func(kind string) bool { return !r.has("type") || r.v["type"] == kind }
	if want("vm") && c.privileges["VM.Audit"] {
		for _, g := range c.sorted() {
			if !g.hidden {
				rows = append(rows, c.resourceRow(g))
			}
		}
	}
	if want("node") {
		nodes, _ := nodeList(c, r)
		rows = append(rows, nodes.([]any)...)
	}
	if want("storage") {
		rows = append(rows, c.storageRows()...)
	}
	return rows, nil
}

// resourceRow is a guest in the list. Its state and name are those that its node last reported
// to the cluster. Its existence, its lock and its tags are current.
func (c *Cluster) resourceRow(g *guest) map[string]any {
	told := c.liveRow(g)
	if c.told != nil {
		told = maps.Clone(c.told[g])
	}
	if c.reach(call{v: map[string]string{"node": g.node}}) != nil || told == nil {
		told = map[string]any{"id": fmt.Sprintf("%s/%d", g.kind, g.vmid), "type": g.kind, "vmid": g.vmid, "status": "unknown"}
	}
	told["node"] = g.node
	for _, k := range []string{"tags", "lock"} {
		delete(told, k)
		if v := g.conf[k]; v != "" {
			told[k] = v
		}
	}
	return told
}

func (c *Cluster) liveRow(g *guest) map[string]any {
	row := c.statusRow(g)
	row["id"], row["type"], row["node"] = fmt.Sprintf("%s/%d", g.kind, g.vmid), g.kind, g.node
	row["vmid"] = g.vmid
	row["maxcpu"] = row["cpus"]
	delete(row, "cpus")
	delete(row, "pid")
	delete(row, "swap")
	delete(row, "maxswap")
	if _, ok := row["template"]; !ok {
		row["template"] = 0
	}
	return row
}

func permissions(c *Cluster, r call) (any, *refusal) {
	held := map[string]any{}
	for p := range c.privileges {
		held[p] = flagOf(!c.narrow)
	}
	out := map[string]any{}
	if c.narrow {
		return map[string]any{"/": held}, nil
	}
	for _, path := range []string{"/", "/vms", "/storage", "/nodes"} {
		if !r.has("path") || r.v["path"] == path {
			out[path] = held
		}
	}
	if len(out) == 0 {
		out[r.v["path"]] = held
	}
	return out, nil
}
