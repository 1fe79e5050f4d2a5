package pvetest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// reply is an answer as received.
type reply struct {
	status int
	reason string
	data   any
	errors map[string]string
}

// ask sends a request with parameters "name=value" and the token.
func ask(t *testing.T, c *Cluster, method, path string, params ...string) reply {
	t.Helper()
	return send(t, c, "PVEAPIToken="+TokenID+"="+Secret, method, path, params...)
}

func send(t *testing.T, c *Cluster, auth, method, path string, params ...string) reply {
	t.Helper()
	form := url.Values{}
	for _, p := range params {
		k, v, _ := strings.Cut(p, "=")
		form.Add(k, v)
	}
	if method == "GET" || method == "DELETE" {
		return sendAs(t, c, auth, method, path+"?"+form.Encode(), "", nil)
	}
	return sendAs(t, c, auth, method, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

// sendBody sends a body of a type, with the token.
func sendBody(t *testing.T, c *Cluster, method, path, kind string, body io.Reader) reply {
	t.Helper()
	return sendAs(t, c, "PVEAPIToken="+TokenID+"="+Secret, method, path, kind, body)
}

func sendAs(t *testing.T, c *Cluster, auth, method, path, kind string, body io.Reader) reply {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, c.URL()+path, body))(t)
	req.Header.Set("Authorization", auth)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res := must.Get(c.http.Client().Do(req))(t)
	defer func() { _ = res.Body.Close() }()
	var object struct {
		Data   any               `json:"data"`
		Errors map[string]string `json:"errors"`
	}
	require.NoError(t, json.UnmarshalRead(res.Body, &object))
	_, reason, _ := strings.Cut(res.Status, " ")
	return reply{res.StatusCode, reason, object.Data, object.Errors}
}

func trusting(t *testing.T, c *Cluster) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(c.CertPEM()))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// refuses sends a request that the server must refuse, as the real one does.
func refuses(t *testing.T, c *Cluster, status int, reason, method, path string, params ...string) {
	t.Helper()
	r := ask(t, c, method, path, params...)
	require.Equal(t, status, r.status, r.reason)
	require.Contains(t, r.reason, reason)
}

// does sends a request that must succeed. If it starts a task, the task must end with OK.
func does(t *testing.T, c *Cluster, method, path string, params ...string) any {
	t.Helper()
	r := ask(t, c, method, path, params...)
	require.Equal(t, http.StatusOK, r.status, "%s %v", r.reason, r.errors)
	if upid, ok := r.data.(string); ok && strings.HasPrefix(upid, "UPID:") {
		status, exit := outcome(t, c, upid)
		require.Equal(t, "stopped", status)
		require.Equal(t, "OK", exit)
	}
	return r.data
}

// ends sends a request whose task must end with an error.
func ends(t *testing.T, c *Cluster, reason, method, path string, params ...string) {
	t.Helper()
	r := ask(t, c, method, path, params...)
	require.Equal(t, http.StatusOK, r.status, r.reason)
	_, exit := outcome(t, c, r.data.(string))
	require.Contains(t, exit, reason)
}

func outcome(t *testing.T, c *Cluster, upid string) (status, exit string) {
	t.Helper()
	node := strings.Split(upid, ":")[1]
	r := ask(t, c, "GET", "/nodes/"+node+"/tasks/"+url.PathEscape(upid)+"/status")
	require.Equal(t, http.StatusOK, r.status, r.reason)
	row := r.data.(map[string]any)
	exit, _ = row["exitstatus"].(string)
	return row["status"].(string), exit
}

func config(t *testing.T, c *Cluster, path string) map[string]any {
	t.Helper()
	return does(t, c, "GET", path+"/config").(map[string]any)
}
