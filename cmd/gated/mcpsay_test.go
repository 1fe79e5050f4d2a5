package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/go-json-experiment/json"
)

// mcpSay is an agent product as small as can be: it starts a command as its MCP server, and plays a file. A line of the
// file is a message, whose answer it prints, or after "!" a command for sh.
func mcpSay(args []string) int {
	if err := playMCP(args[0], args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func playMCP(file string, line []string) error {
	script, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := bufio.NewReader(out)
	for _, line := range strings.Split(strings.TrimSpace(string(script)), "\n") {
		if err := playLine(line, in, answers); err != nil {
			return err
		}
	}
	if err := in.Close(); err != nil {
		return err
	}
	if _, err := io.Copy(os.Stdout, answers); err != nil {
		return err
	}
	return cmd.Wait()
}

func playLine(line string, in io.Writer, answers *bufio.Reader) error {
	if own, ok := strings.CutPrefix(line, "!"); ok {
		cmd := exec.Command("sh", "-c", own)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	if _, err := fmt.Fprintln(in, line); err != nil {
		return err
	}
	var message struct {
		ID any `json:"id"`
	}
	if err := json.Unmarshal([]byte(line), &message); err == nil && message.ID == nil {
		return nil // a notification has no answer
	}
	answer, err := answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer to %s: %w", line, err)
	}
	_, err = io.WriteString(os.Stdout, answer)
	return err
}
