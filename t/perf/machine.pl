#!/usr/bin/perl
# What a reader must know of the machine and the programs: JSON on stdout, for the head of
# the tables. No host name, no user, no path.

use strict;
use warnings;
use JSON::PP;
use POSIX qw(strftime);

sub first_line {
	my ($command) = @_;
	my $text = `$command 2>/dev/null`;
	$text = '' unless defined $text;
	$text =~ s/\n.*//s;
	return $text;
}

sub slurp {
	my ($path) = @_;
	open my $in, '<', $path or return '';
	local $/;
	my $text = <$in>;
	return defined $text ? $text : '';
}

my ($model) = slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)$/m;
my ($memory) = slurp('/proc/meminfo') =~ /^MemTotal:\s*(\d+)/m;
my $cores = grep { /^processor\s*:/ } split /\n/, slurp('/proc/cpuinfo');
my $json = first_line(q(perl -e 'print eval { require JSON::XS; 1 } ? "JSON::XS" : "JSON::PP"'));
my %versions = (
	git => first_line("$ENV{GIT} version"),
	hyperfine => first_line('hyperfine --version'),
	cc => first_line('cc --version'),
	perl => sprintf('%vd', $^V),
	valgrind => first_line('valgrind --version'),
	strace => first_line('strace --version'),
);
$versions{treewatch} = first_line("'$ENV{TREEWATCH}' --version") if -x $ENV{TREEWATCH};
if (my $watchman = first_line('watchman --version')) {
	$versions{watchman} = "$watchman, git's sample hook with $json";
}
my ($load) = split ' ', slurp('/proc/loadavg');
print JSON::PP->new->canonical->pretty->encode({
	date => strftime('%Y-%m-%d', localtime),
	kernel => first_line('uname -sr') =~ /^(\S+ \d+\.\d+\.\d+)/ ? $1 : '',
	machine => first_line('uname -m'),
	cpu => $model || '',
	cores => $cores,
	memory_gb => sprintf('%.0f', ($memory || 0) / 1048576) + 0,
	file_system => first_line("df --output=fstype '$ENV{PERF_DIR}' | tail -1"),
	max_user_watches => slurp('/proc/sys/fs/inotify/max_user_watches') + 0,
	max_queued_events => slurp('/proc/sys/fs/inotify/max_queued_events') + 0,
	load_at_start => $load + 0,
	size => $ENV{PERF_SIZE},
	git_has_builtin_daemon => $ENV{GIT_HAS_DAEMON},
	skipped => [ split ' ', $ENV{SKIPPED} || '' ],
	versions => \%versions,
});
