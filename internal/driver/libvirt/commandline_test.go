package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func init() {
	beds["what every step leaves is named"] = leftAlone
	beds["a disk below a file that QEMU's command line names"] = belowALine
	beds["what QEMU's command line hides"] = hiddenLine
	beds["a destroy of a guest that hides files"] = hiddenDestroyed
	beds["a start that takes the disks back"] = startsBack
	beds["a port or a log that is another guest's disk"] = logsOver
	beds["drives of QEMU's command line that keep nothing"] = forgetful
	beds["other hands between the look and the step"] = otherHands
	beds["other hands right before the work"] = lastMoment
}

// TestPathsOfAnArgument: a form that is not read hides a file, so each form of QEMU's is here.
func TestPathsOfAnArgument(t *testing.T) {
	for arg, want := range map[string][]string{
		"-snapshot":                                       nil,
		"/srv/a.img":                                      {"/srv/a.img"},
		"file:/srv/a.img":                                 {"/srv/a.img"},
		"file=/srv/a.img,if=virtio,format=raw":            {"/srv/a.img"},
		"if=virtio,file=/srv/a,,b=c.img":                  {"/srv/a,b=c.img"},
		"file=/srv/{a}.img,if=virtio":                     {"/srv/{a}.img"},
		"file=fat:rw:/srv/dir":                            {"/srv/dir"},
		"local,path=/srv/dir,id=f":                        {"/srv/dir"},
		"file=nbd://host/srv/a.img":                       nil,
		"file=nbd:unix:/run/s,format=raw":                 {"/run/s"},
		`{"driver":"file","filename":"/srv/a,b"}`:         {"/srv/a,b"},
		`file=json:{"file":{"filename":"file:\/srv\/a"}}`: {"/srv/a"},
		`{"file":{"filename":"/srv/a"},"backing":{"file":{"filename":"/srv/b"}}}`: {"/srv/a", "/srv/b"},
	} {
		require.Equal(t, want, pathsOf(arg), arg)
	}
}

// line is QEMU's command line in a definition.
func line(args ...string) string {
	var b strings.Builder
	for _, a := range args {
		b.WriteString("<qemu:arg value='" + escape(a) + "'/>")
	}
	return "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>" + b.String() + "</qemu:commandline>"
}

// TestWhatTwoCommandLinesName: a file or a directory that two command lines name is shared, in any form, unless it is only read.
func TestWhatTwoCommandLinesName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.img")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(dir, dir+"-link"))
	named := file + " (" + commandLine + ")"
	for name, c := range map[string]struct{ a, b, says string }{
		"one form":                    {line("-drive", "file="+file), line("-hdb", file), named + ", which guest b uses as well"},
		"JSON":                        {line("-blockdev", `{"driver":"file","filename":"`+file+`"}`), on(file, "vda", "raw"), named + ", which guest b uses as well"},
		"by a link":                   {line("-drive", "file="+file), line("-drive", "file="+dir+"-link/a.img"), named + ", which guest b uses as well"},
		"a disk":                      {on(file, "vda", "raw"), line("-blockdev", `{"driver":"file","filename":"`+file+`"}`), "vda, which guest b uses as well"},
		"a directory":                 {line("-fsdev", "local,id=f,path="+dir), fileSystem(dir), dir + " (" + commandLine + "), which guest b uses as well"},
		"a disk in one":               {on(file, "vda", "raw"), line("-virtfs", "local,path="+dir+",mount_tag=t"), "vda, which lies in a directory that guest b has"},
		"a disk in one, by a network": {on(file, "vda", "raw"), line("-netdev", "user,id=n,smb="+dir), "vda, which lies in a directory that guest b has"},
		"a disk in one, as JSON":      {on(file, "vda", "raw"), line("-netdev", `{"type":"user","id":"n","smb":"`+dir+`"}`), "vda, which lies in a directory that guest b has"},
		"a disk in one, by USB":       {on(file, "vda", "raw"), line("-device", "usb-mtp,rootdir="+dir+",readonly=false"), "vda, which lies in a directory that guest b has"},
		"a log on a disk":             {line("-D", file), on(file, "vda", "raw"), file + " (" + commandLine + ", -D), which guest b uses as well"},
		"a port on a disk":            {line("-chardev", "file,id=c,path="+file), on(file, "vda", "raw"), file + " (" + commandLine + ", -chardev), which guest b uses as well"},
		"a serial port on a disk":     {"<serial type='file'><source path='" + file + "'/></serial>", on(file, "vda", "raw"), file + " (serial), which guest b uses as well"},
		"one on a disk by a link":     {"<serial type='file'><source path='" + dir + "-link/a.img'/></serial>", on(file, "vda", "raw"), dir + "-link/a.img (serial), which guest b uses as well"},
		"one on what b only reads":    {"<serial type='file'><source path='" + file + "'/></serial>", on(file, "vda", "raw", "<readonly/>"), file + " (serial), which guest b uses as well"},
		"a log on a drive":            {line("-D", file), line("-drive", "file="+file), file + " (" + commandLine + ", -D), which guest b uses as well"},
		"a port on a kernel":          {"<serial type='file'><source path='" + file + "'/></serial>", line("-kernel", file), file + " (serial), which guest b uses as well"},
		"a floppy":                    {strings.Replace(on(file, "fda", "raw"), "'disk'", "'floppy'", 1), on(file, "vda", "raw"), "fda, which guest b uses as well"},
		"a part of a device":          {line("-set", "device.m.rootdir="+dir), on(file, "vda", "raw"), dir + " (" + commandLine + "), where guest b has vda"},
		"a part of all devices":       {line("-global", "usb-mtp.rootdir="+dir), on(file, "vda", "raw"), dir + " (" + commandLine + "), where guest b has vda"},
		"one that b has, too":         {"<serial type='file'><source path='" + file + "'/></serial>", "<serial type='file'><source path='" + file + "'/></serial>", ""},
		"only read":                   {line("-drive", "file="+file+",readonly=on"), line("-drive", "file="+file), ""},
		"a disk that is only read":    {line("-drive", "file="+file+",readonly=on"), on(file, "vda", "raw"), ""},
		"read only, but for a moment": {line("-blockdev", "driver=file,node-name=n,auto-read-only=on,filename="+file), line("-drive", "file="+file), named + ", which guest b uses as well"},
		"a path that says so":         {line("-drive", "file="+file+",,readonly=on"), line("-drive", "file="+file+",,readonly=on"), file + ",readonly=on (" + commandLine + "), which guest b uses as well"},
		"a file below is only read":   {line("-drive", "file="+file+",backing.read-only=on"), line("-drive", "file="+file), named + ", which guest b uses as well"},
		"the same as JSON": {line("-blockdev", `{"driver":"qcow2","file":{"driver":"file","filename":"`+file+`"},"backing":{"driver":"null-co","read-only":true}}`),
			line("-drive", "file="+file), named + ", which guest b uses as well"},
		"only read, as JSON": {line("-blockdev", `{"driver":"file","filename":"`+file+`", "read-only": true}`), line("-drive", "file="+file), ""},
		"no disk":            {line("-bios", file), line("-bios", file), ""},
		"hidden here": {line("-readconfig", file), on(dir+"/b.img", "vda", "raw"),
			commandLine + ", which may be a disk of any other guest: -readconfig (" + commandLine + "): it adds to other options what the driver does not read: " + file},
		"hidden there":                {on(dir+"/b.img", "vda", "raw"), line("-readconfig", file), "vda, which guest b may use as well"},
		"hidden there, for a server":  {netDisk("protocol='rbd' name='p/i'>"), line("-readconfig", file), "vda, which guest b may use as well"},
		"hidden there, only read":     {on(dir+"/b.img", "vda", "raw"), line("-drive", "file=b.img,readonly=on"), "vda, which guest b may use as well"},
		"hidden here, and only read":  {line("-drive", "file=b.img,readonly=on"), on(dir+"/b.img", "vda", "raw"), ""},
		"hidden there, and read here": {on(dir+"/b.img", "vda", "raw", "<readonly/>"), line("-readconfig", file), ""},
		"a comma":                     {line("-hda", file+",b"), line("-drive", "file="+file+",,b"), file + ",b (" + commandLine + "), which guest b uses as well"},
		"an option as a value":        {line("-append", "-drive", "-append", file), line("-hda", file), ""},
		"another":                     {line("-drive", "file="+file), line("-drive", "file="+file+"2"), ""},
	} {
		var want []string
		if c.says != "" {
			want = []string{c.says}
		}
		outside := strings.NewReplacer("<qemu:commandline", "</devices><qemu:commandline", "</qemu:commandline>", "</qemu:commandline><devices>")
		require.Equal(t, want, between(t, given(t, "a", outside.Replace(c.a)), given(t, "b", outside.Replace(c.b))), name)
	}
}

// leftAlone: a destroy leaves the directories, the media and what QEMU's command line names, and says so. Who signs has signed
// for them.
func leftAlone(b *bed) {
	b.must("create", "scr")
	scr, dir := b.Disks("scr")[0], b.t.TempDir()
	drive, seed, over := b.file("a,b.img", "data"), b.file("seed.iso", "user-data"), b.Image("over")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", scr, over)
	b.Plant("web", "", "")
	before := b.look("web")
	b.Define(strings.NewReplacer("</devices>", `<filesystem type='mount' accessmode='mapped'><source dir='`+dir+`'/><target dir='tag'/></filesystem>`+
		`<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='`+seed+`'/><target dev='sda' bus='sata'/></disk></devices>`,
		"</domain>", line("-drive", "file="+strings.ReplaceAll(drive, ",", ",,")+",if=none", "-blockdev", `{"driver":"file","filename":"`+over+`"}`)+"</domain>").
		Replace(b.Virsh("dumpxml", "web")))
	now := b.look("web")
	require.NotEqual(b.t, before.Fingerprint, now.Fingerprint)
	require.Equal(b.t, before.Incarnation, now.Incarnation)
	remains := b.fact("web", "remains")
	require.Contains(b.t, remains, "after a destroy: sda (the medium "+seed+")")
	require.Contains(b.t, remains, "after any step: ")
	for _, at := range []string{drive + " (" + commandLine + ")", over + " (" + commandLine + ")", "the directory " + dir} {
		require.Contains(b.t, remains, at)
	}
	require.Equal(b.t, []op.Target{target("web")}, b.look("scr").Dependent, "its disk is below a file that the command line names")
	b.keeps(scr, func() { b.refused(refusal.Conflict, "wipe", "scr") })
	b.keeps(drive, func() { b.keeps(seed, func() { b.keeps(over, func() { b.must("destroy", "web") }) }) })
	require.DirExists(b.t, dir)
	require.Empty(b.t, b.look("scr").Dependent)
}

// lineOf reads QEMU's command line from words; a word between vertical bars may have blanks.
func lineOf(text string) []argument {
	var args []argXML
	for i, part := range strings.Split(text, "|") {
		if i%2 == 1 {
			args = append(args, argXML{part})
			continue
		}
		for word := range strings.FieldsSeq(part) {
			args = append(args, argXML{word})
		}
	}
	return argumentsOf(args)
}

// hiddenIn are the options whose value may name any file.
func hiddenIn(all []argument) []string {
	var out []string
	for _, a := range all {
		if a.hides != "" {
			out = append(out, a.option)
		}
	}
	return out
}

// TestWhatQEMUReadsAsRaw: a path, an id, or a layer above a qcow2 file that says "raw" hides no file below it.
func TestWhatQEMUReadsAsRaw(t *testing.T) {
	const below, raw = false, true
	for text, want := range map[string]bool{
		"-drive file=/srv/a,format=raw,if=none":                                                                        raw,
		"-drive driver=raw,file.filename=/srv/a":                                                                       raw,
		"-drive driver=raw,file.driver=file,file.filename=/srv/a":                                                      raw,
		"-drive file=/srv/a,if=none":                                                                                   below,
		"-hda /srv/a":                                                                                                  below,
		"-snapshot /srv/a":                                                                                             below,
		"-name -drive /srv/a":                                                                                          below,
		`-blockdev |{"driver": "file", "filename":"/srv/a"}|`:                                                          below,
		`-blockdev {"driver":"raw","file":{"driver":"file","filename":"/srv/a"}}`:                                      raw,
		`-blockdev {"driver":"raw","file":{"driver":"file","filename":"\u002fsrv\/a"}}`:                                raw,
		"-drive file=/srv/a,id=draw,if=none":                                                                           below,
		"-drive file=/srv/a,id=raw,format=qcow2":                                                                       below,
		`-blockdev {"driver":"file","node-name":"raw","filename":"/srv/a"}`:                                            below,
		"-blockdev driver=raw,file.driver=qcow2,file.file.filename=/srv/a":                                             below,
		"-blockdev driver=qcow2,file.driver=raw,file.file.filename=/srv/a":                                             below,
		"-blockdev driver=raw,file.driver=qcow2,file.filename=/srv/a":                                                  below,
		`-blockdev {"driver":"raw","file":{"driver":"qcow2","file":{"filename":"/srv/a"}}}`:                            below,
		`-drive format=raw,file=json:{"driver":"qcow2",,"file":{"filename":"/srv/a"}}`:                                 below,
		"-drive file=/srv/a,format=raw,id=d -blockdev qcow2,file=d":                                                    below,
		"-blockdev raw,node-name=r,file.driver=file,file.filename=/srv/a -blockdev qcow2,file=r":                       below,
		"-blockdev file,node-name=p,filename=/srv/a -blockdev raw,node-name=r,file=p -device virtio-blk,drive=r":       raw,
		"-blockdev file,node-name=p,filename=/srv/a -blockdev raw,node-name=r,file=p -blockdev qcow2,backing=r":        below,
		"-blockdev file,node-name=p,filename=/srv/a -blockdev raw,file=p -blockdev qcow2,file=p":                       below,
		`-blockdev file,node-name=p,filename=/srv/a -blockdev {"driver":"qcow2","file":"p"}`:                           below,
		"-blockdev file,node-name=a,filename=/srv/a -blockdev raw,node-name=b,file=c -blockdev raw,node-name=c,file=b": below,
	} {
		var got []located
		for _, a := range lineOf(text) {
			got = append(got, a.paths...)
		}
		require.Equal(t, []located{{"/srv/a", want}}, got, text)
		require.Empty(t, hiddenIn(lineOf(text)), text)
	}
}

// TestWhatACommandLineHides: QEMU may open any file of the host for what the driver does not read to its end. What names nothing
// of the host is no doubt.
func TestWhatACommandLineHides(t *testing.T) {
	for text, want := range map[string]string{
		"-drive file=/srv/a.vmdk,format=vmdk":                                                  "drive",
		"-drive driver=qed,file.filename=/srv/a":                                               "drive",
		`-blockdev {"driver":"raw","file":{"driver":"vmdk","file":{"filename":"/srv/a"}}}`:     "blockdev",
		"-blockdev quorum,children.0.driver=file,children.0.filename=/srv/a":                   "blockdev",
		"-drive file=/srv/a,format=":                                                           "drive",
		"-readconfig /etc/qemu/web.cfg":                                                        "readconfig",
		"-set drive.d.file=/srv/a":                                                             "set",
		"-blockdev {'driver':'qcow2','file':{'driver':'file','filename':'/srv/a'}}":            "blockdev",
		"-drive 'json:{\"driver\":\"raw\"}'":                                                   "",
		"-drive file='json:{\"driver\":\"raw\"}'":                                              "drive",
		"-drive file=json:{'driver':'file',,'filename':'/srv/a'}":                              "drive",
		"-hda json:{'driver':'file','filename':'/srv/a'}":                                      "hda",
		`-blockdev {"driver":"file","filename":"/srv/a","filename":"/srv/b"}`:                  "blockdev",
		`-blockdev {"driver":"file","filename":"/srv/a"`:                                       "blockdev",
		"-object {'qom-type':'memory-backend-file','mem-path':'/srv/a'}":                       "object",
		"-drive file=/srv/a,format=raw,format=qcow2":                                           "drive",
		"-drive file=a.img,format=raw":                                                         "drive",
		"-drive file=file:a.img":                                                               "drive",
		"-drive file.driver=file,file.filename=nbd:a,format=raw":                               "drive",
		"-drive file=/dev/fdset/1,format=raw":                                                  "drive",
		"-drive file=/proc/self/fd/3,format=raw":                                               "drive",
		"-drive file=fat:rw:dir":                                                               "drive",
		"-drive driver=vvfat,dir=srv":                                                          "drive",
		"-hdb a.img":                                                                           "hdb",
		"-cdrom a.iso":                                                                         "cdrom",
		"-snapshot a.img":                                                                      "hda",
		"-name -drive file=/srv/a":                                                             "hda",
		"-fsdev local,id=f,path=srv":                                                           "fsdev",
		"-object memory-backend-file,id=m,mem-path=a.img,share=on":                             "object",
		"-mem-path pages":                                                                      "mem-path",
		"-chardev file,id=c,path=a.img":                                                        "chardev",
		"-serial file:a.img":                                                                   "serial",
		"-kernel vmlinuz":                                                                      "kernel",
		"-drive file=nbd:host:10809":                                                           "drive",
		"-drive file=nbd+unix:///x?socket=/run/s":                                              "drive",
		"-drive file=ssh://host/srv/a,format=qcow2":                                            "drive",
		"-cdrom http://host/a.iso":                                                             "cdrom",
		"-drive file.driver=iscsi,file.portal=host,file.target=iqn.x,file.lun=0":               "drive",
		"-blockdev nbd,node-name=n,server.type=unix,server.path=/run/s":                        "blockdev",
		"-blockdev nbd,node-name=n,server.type=unix,server.path=/run/s -blockdev qcow2,file=n": "blockdev",
		"-drive file=blkdebug:/etc/rules:/srv/a":                                               "drive",
		"-blockdev qcow2,node-name=q,file=libvirt-1-storage":                                   "blockdev",
		"-blockdev qcow2,file.driver=file,file.filename=/srv/a,backing=libvirt-1-format":       "blockdev",
		"-blockdev raw,node-name=r,file=libvirt-1-storage -blockdev qcow2,file=r":              "blockdev",
		"-incoming exec:cat":                                                                   "incoming",
		"-new-option x":                                                                        "new-option",
		"---drive file=/srv/a":                                                                 "-drive",
		"-semihosting -S":                                                                      "semihosting",
		"-semihosting-config enable=on,target=native":                                          "semihosting-config",
		"-gdb file:a.img":                                                                      "gdb",
		"-serial mon:file:a.img":                                                               "serial",
		"-icount shift=7,rr=record,rrfile=a.img":                                               "icount",
		"-audio wav,model=hda,path=a.img":                                                      "audio",
		"-fsdev proxy,id=f,socket=/run/s":                                                      "fsdev",
		"-virtfs fsdriver=proxy,socket=/run/s,mount_tag=t":                                     "virtfs",
		"-nic user,smb=srv":                                                                    "nic",
		"-netdev {'type':'user','id':'n','smb':'/srv'}":                                        "netdev",
		"-device usb-mtp,rootdir=srv":                                                          "device",
		"-set device.m.rootdir=srv":                                                            "set",
		"-global usb-mtp.rootdir=srv":                                                          "global",
		"-chardev socket,id=c,path=s,server=on":                                                "chardev",
		"-chardev socket,id=c,path=s,logfile=a":                                                "chardev",
		"-qmp unix:s,server=on":                                                                "qmp",
		"-serial tcp:127.0.0.1:1,server=on,logfile=a":                                          "serial",
		"-vnc unix:s":                       "vnc",
		"-spice unix=on,addr=s":             "spice",
		"-spice unix,addr=s":                "spice",
		"-spice unix=on,addr=/run/a,addr=s": "spice",
		"-spice addr=s,unix":                "spice",
		"-spice unix=yes,addr=s":            "spice",
		"-serial file:on":                   "serial",
		"-serial pipe:off":                  "serial",
		"-device usb-mtp,rootdir=on":        "device",
		"-vnc unix:on":                      "vnc",
		"-trace enable=qmp*,file=a":         "trace",
		"-netdev user,id=n,guestfwd=tcp:10.0.2.100:80-file:/srv/a":                           "netdev",
		"-netdev stream,id=n,server=on,addr.type=unix,addr.path=s":                           "netdev",
		"-netdev {'type':'stream','id':'n','server':true,'addr':{'type':'unix','path':'s'}}": "netdev",
		`-netdev {"type":"stream","id":"n","addr":{"type":"unix","path":"\u002fs"}}`:         "netdev",
		"-tpmdev passthrough,id=t,path=/dev/tpm0,cancel-path=a":                              "tpmdev",
		"-object qtest,id=q,chardev=c,log=a":                                                 "object",
		"-D /srv/%d.log":                                                                     "D",
		"-plugin /srv/a.so":                                                                  "plugin",
		"-usbdevice serial::file:a":                                                          "usbdevice",

		"-append |root=/dev/vda file=a.img drive| -name drive=a -smbios type=1,serial=ds=nocloud;s=http://x/ -uuid u":    "",
		"-name guest=a,debug-threads=on -cpu host,-vmx -smp 2 -global PIIX4_PM.disable_s3=1 -no-reboot -S":               "",
		"-device vfio-pci,host=01:00.0,x-vga=on -set device.hostdev0.x-pci-sub-device-id=5 -usbdevice tablet":            "",
		"-netdev {'type':'user'} -device {'driver':'e1000'} -fw_cfg name=opt/x,string=a -boot menu=on":                   "",
		"-chardev socket,id=c,path=s -serial pty -monitor stdio -qmp unix:/run/q,server":                                 "",
		"-object iothread,id=i -machine q35,accel=kvm -M pc -bios bios.bin -append -drive -append -readconfig":           "",
		"-blockdev raw,node-name=r,file=libvirt-1-storage -device virtio-blk,drive=r":                                    "",
		"-global driver=cfi.pflash01,property=secure,value=on -vnc unix:/run/v -trace file=/srv/t -nic user,bootfile=/x": "",
		"-drive if=none,id=empty -cdrom || -device ide-cd,drive=empty":                                                   "",
		"-drive file=nbd:host:10809,format=raw -drive driver=raw,file.driver=ssh,file.host=h,file.path=a":                "",
		"-blockdev nbd,node-name=n,server.type=unix,server.path=/run/s -blockdev raw,file=n":                             "",
		"-drive file=/srv/a,if=none -hda /srv/a,b --drive file=/srv/a,format=luks":                                       "",
		"-gdb tcp::1234 -icount auto -audio none -icount 7 -serial mon:stdio -nic user,tftp=/srv,model=e1000":            "",
		"-blockdev null-co,node-name=n,size=1 -blockdev throttle,file=n,throttle-group=g":                                "",
		"-spice port=5900,addr=127.0.0.1,x509-dir=/srv/unix-certs -spice unix=off,addr=127.0.0.1,port=1":                 "",
		"-spice unix=on,addr=/run/a -spice addr=/run/a,unix":                                                             "",
		"-fsdev local,id=f,path=/srv,security_model=none -virtfs local,path=/srv,mount_tag=t":                            "",
	} {
		require.Equal(t, strings.Fields(want), append([]string{}, hiddenIn(lineOf(text))...), text)
	}
}

// belowALine: a guest's disk below such a file is the other guest's too, whatever the file is called. If the file cannot be followed, it
// may be any disk.
func belowALine(b *bed) {
	b.must("create", "scr")
	scr, over, odd := b.Disks("scr")[0], b.Image("draw-over"), b.Image("odd")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", scr, over)
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", scr, odd)
	head := must.Get(os.ReadFile(odd))(b.t)
	head[16] = 0xff // the length of the name
	require.NoError(b.t, os.WriteFile(odd, head, 0o600))
	for _, at := range []string{over, odd} {
		b.Plant("web", "", "")
		b.Define(strings.Replace(b.Virsh("dumpxml", "web"), "</domain>", line("-drive", "file="+at+",if=none")+"</domain>", 1))
		require.Equal(b.t, []op.Target{target("web")}, b.look("scr").Dependent, at)
		b.keeps(scr, func() { b.refused(refusal.Conflict, "wipe", "scr") })
		b.Virsh("undefine", "web")
	}
}

// hiddenLine: while a guest's command line may name any file, no other guest loses anything, and none starts unsigned that would
// write a disk.
func hiddenLine(b *bed) {
	b.must("create", "scr")
	scr := b.Disks("scr")[0]
	for name, args := range map[string][]string{
		"a format":               {"-drive", "file=" + b.file("a.vmdk", "") + ",format=vmdk,if=none"},
		"JSON with apostrophes":  {"-blockdev", "{'driver':'file','node-name':'n','filename':'" + scr + "'}"},
		"more options":           {"-readconfig", b.file("more.cfg", "[drive]\n  file = \""+scr+"\"\n")},
		"a relative path":        {"-drive", "format=raw,if=none,file=" + strings.TrimPrefix(scr, "/")},
		"a server":               {"-drive", "file=nbd:localhost:10809,if=none"},
		"a head of QED":          {"-drive", "if=none,file=" + b.file("a.qed", "QED\x00"+strings.Repeat("\x00", 600))},
		"a head of VMDK":         {"-hdb", b.file("a.img", "KDMV"+strings.Repeat("\x00", 600))},
		"a description for VMDK": {"-drive", "if=none,file=" + b.file("b.img", "# Disk DescriptorFile\nversion=1\nRW 8 FLAT \""+scr+"\" 0\n")},
	} {
		b.Plant("real", "", "")
		b.Define(strings.Replace(b.Virsh("dumpxml", "real"), "</domain>", line(args...)+"</domain>", 1))
		b.takesNothing("scr")
		require.Contains(b.t, b.fact("scr", "not known"), "which files real uses", name)
		require.Equal(b.t, []string{"vda, which guest real may use as well"}, b.look("scr").Shares, name)
		require.Contains(b.t, strings.Join(b.look("real").Shares, "; "), "which may be a disk of any other guest", name)
		_, _, err := b.try("wipe", "scr")
		require.ErrorContains(b.t, err, "the domain real uses: ", name)
		b.Virsh("undefine", "real")
		require.Empty(b.t, b.look("scr").Dependent, name)
		require.Empty(b.t, b.look("scr").Shares, name)
	}
	b.must("destroy", "scr")
	b.Plant("real", "", "")
	text, signed := b.Virsh("dumpxml", "real"), map[op.Fingerprint]bool{}
	for _, hidden := range []string{"{'driver':'file','filename':'/srv/a'}", "{'driver':'file','filename':'/srv/b'}"} {
		b.Define(strings.Replace(text, "</domain>", line("-blockdev", hidden)+"</domain>", 1))
		signed[b.look("real").Fingerprint] = true
	}
	require.Len(b.t, signed, 2, "a start that was signed for one is not signed for another")
}

// startsBack: with -loadvm, QEMU takes the disks back to a snapshot at each start, and what was written since is lost. A start is benign.
func startsBack(b *bed) {
	b.must("create", "web", "state", "running")
	b.Virsh("snapshot-create-as", "web", "s")
	path, plain := b.Disks("web")[0], b.Virsh("dumpxml", "web", "--inactive")
	for _, args := range [][]string{{"-loadvm", "s"}, {"--loadvm", "s"}, {"-icount", "shift=7,rr=replay,rrfile=/srv/log,rrsnapshot=s"}, {"-icount", "7,rr=replay,rr=replay"}} {
		b.Define(strings.Replace(plain, "</domain>", line(args...)+"</domain>", 1))
		b.refused(refusal.Conflict, "restart", "web")
		require.Equal(b.t, running, b.look("web").Running, "%v", args)
		b.must("start", "web") // it runs already
		b.must("stop", "web")
		b.keeps(path, func() { b.refused(refusal.Conflict, "start", "web") })
		b.Define(plain)
		b.must("start", "web")
	}
	b.Define(strings.Replace(plain, "</domain>", line("-name", "-loadvm", "-icount", "7")+"</domain>", 1))
	b.must("restart", "web")
}

// logsOver: QEMU and libvirt empty a file that a port or a log writes, and put a socket in the place of one, at each start. So a start
// waits that would do so to a disk, also to its own.
func logsOver(b *bed) {
	b.Plant("app", "", "")
	b.Plant("web", "", "")
	plain := b.Virsh("dumpxml", "web")
	for _, at := range []string{b.Image("app"), b.Image("web")} {
		for _, text := range []string{
			strings.Replace(plain, "</devices>", "<serial type='file'><source path='"+at+"'/></serial></devices>", 1),
			strings.Replace(plain, "</devices>", "<serial type='pty'><log file='"+at+"'/></serial></devices>", 1),
			strings.Replace(plain, "</devices>", "<channel type='unix'><source mode='bind' path='"+at+"'/><target type='virtio' name='x'/></channel></devices>", 1),
			strings.NewReplacer("<os>", "<memoryBacking><access mode='shared'/></memoryBacking><os>", "</devices>",
				"<interface type='vhostuser'><source type='unix' mode='server' path='"+at+"'/><model type='virtio'/></interface></devices>").Replace(plain),
			strings.Replace(plain, "</devices>", "<graphics type='vnc' socket='"+at+"'/></devices>", 1),
			strings.Replace(plain, "</domain>", line("-chardev", "file,id=c,path="+at)+"</domain>", 1),
			strings.Replace(plain, "</domain>", line("-qmp", "unix:"+at+",server=on,wait=off")+"</domain>", 1),
			strings.Replace(plain, "</domain>", line("-D", at)+"</domain>", 1),
		} {
			b.Define(text)
			require.NotEmpty(b.t, b.look("web").Shares, text)
			require.Contains(b.t, b.look("web").Shares[0], choose(at == b.Image("app"), ", which guest app uses as well", ", which is its own disk vda"))
		}
	}
	b.Define(plain)
	require.Empty(b.t, b.look("web").Shares)
	b.Define(strings.Replace(plain, "</devices>", "<serial type='file'><source path='"+b.file("log", "")+"'/></serial></devices>", 1))
	require.Empty(b.t, b.look("web").Shares)
}

// hiddenDestroyed: a guest of which not all files are known can go, signed. Its disks stay, because what is not known may lie on one.
func hiddenDestroyed(b *bed) {
	b.must("create", "scr")
	b.must("create", "web")
	made, at := b.look("web"), b.Disks("web")[0]
	over := b.Image("over")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", at, over)
	b.edit("web", "</domain>", line("-blockdev", "{'driver':'file','node-name':'n','filename':'"+over+"'}"))
	now := b.look("web")
	require.NotEqual(b.t, made.Fingerprint, now.Fingerprint)
	require.Subset(b.t, now.Storage, made.Storage)
	require.NotSubset(b.t, made.Storage, now.Storage, "no record of making it covers that, so it takes a signature")
	require.Contains(b.t, b.fact("web", "remains"), "after a destroy: vda (what is not known of its guest may lie on it)")
	b.keeps(at, func() {
		b.keeps(over, func() {
			b.refused(refusal.Conflict, "wipe", "web")
			b.refused(refusal.Conflict, "disk-wipe", "web", "disk", "vda")
			b.refused(refusal.Conflict, "disk-delete", "web", "disk", "vda")
			b.refused(refusal.Conflict, "destroy", "scr")
			b.must("destroy", "web")
		})
	})
	require.False(b.t, b.look("web").Present)
	b.must("destroy", "scr")

	// What is hidden only at the last moment stops the step before it takes a disk.
	b.Plant("web", "", "")
	b.keeps(b.Image("web"), func() {
		err := b.during(func() { b.edit("web", "</domain>", line("-readconfig", "/etc/x")) }, "destroy", "web", op.Params{})
		require.ErrorIs(b.t, err, refusal.Conflict)
		require.False(b.t, driver.IsUnknown(err), err)
	})
	require.True(b.t, b.look("web").Present)
}

// forgetful: what a guest wrote to such a drive is lost at its stop, as with a transient disk.
func forgetful(b *bed) {
	b.Plant("web", "", "")
	plain, at := b.Virsh("dumpxml", "web"), b.file("a.img", strings.Repeat("x", 1<<20))
	for text, want := range map[string]bool{
		"-drive file=" + at + ",format=raw,if=none,snapshot=on":                                                                 true,
		"-drive file=" + at + ",format=raw,if=none,snapshot":                                                                    true,
		"-snapshot -drive file=" + at + ",format=raw,if=none":                                                                   true,
		"-drive file=" + at + ",format=raw,if=none,snapshot=off":                                                                false,
		`-snapshot -blockdev {"driver":"raw","node-name":"n","file":{"driver":"file","filename":"` + at + `","locking":"off"}}`: false,
		"-name -snapshot": false,
	} {
		b.Define(strings.Replace(plain, "</domain>", line(strings.Fields(text)...)+"</domain>", 1))
		require.False(b.t, b.look("web").Volatile, "it does not run: %s", text)
		b.must("start", "web")
		require.Equal(b.t, want, b.look("web").Volatile, text)
		b.Virsh("destroy", "web")
	}
}

// hands are what an administrator may do to a guest with a disk at any moment.
func (b *bed) hands() map[string]func() {
	edit := func(before, added string) func() { return func() { b.edit("web", before, added) } }
	return map[string]func(){
		"a snapshot":    func() { b.Virsh("snapshot-create-as", "web", "late") },
		"a directory":   edit("</devices>", `<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='tag'/></filesystem>`),
		"a drive":       edit("</domain>", line("-drive", "file="+b.file("late.img", "x")+",if=none")),
		"another's use": func() { b.domain("real", "", "<kernel>"+b.Image("web")+"</kernel>") },
	}
}

// otherHands: what was shown is what is signed. So a change before the signature counts makes the state another one.
func otherHands(b *bed) {
	for name := range b.hands() {
		b.Clear()
		b.Plant("web", "", "")
		before := b.look("web")
		b.hands()[name]()
		require.NotEqual(b.t, before.Fingerprint, b.look("web").Fingerprint, name)
	}
}

// lastMoment: a change after the permit was used stops the step before it takes anything that nobody was shown.
func lastMoment(b *bed) {
	for name := range b.hands() {
		for _, verb := range []string{"wipe", "destroy", "restore"} {
			b.Clear()
			b.Plant("web", "", "")
			params := op.Params{}
			if verb == "restore" {
				b.must("snapshot", "web", "snapshot", "s")
				params = op.Params{"snapshot": "s"}
			}
			path := b.Image("web")
			var after string
			do := func() { b.hands()[name](); after = b.Digest(path) }
			err := b.during(do, verb, "web", params)
			kept := after == b.Digest(path)
			switch {
			case name == "another's use", name == "a snapshot" && verb != "restore":
				require.Error(b.t, err, "%s, %s", name, verb)
				require.False(b.t, driver.IsUnknown(err), "%s, %s: nothing was done: %v", name, verb, err)
				require.True(b.t, kept, "%s, %s", name, verb)
			case verb == "destroy":
				require.ErrorContains(b.t, err, "not seen before", name)
				require.True(b.t, must.Get(b.d.Observe(context.WithoutCancel(b.t.Context()), op.At(target("web"))))(b.t).Present, "its definition stays")
			default:
				require.NoError(b.t, err, "%s, %s", name, verb) // it takes what was shown, and leaves the rest
			}
		}
	}
}
