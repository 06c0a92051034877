# The figures that treewatch is to reach: a list of [what, wanted, code]; the code gets
# the measurements and returns what was measured, and whether that is good enough.
# Comparisons are of medians (a busy moment of the machine spoils a mean); the ratio of
# the means and its error stand beside. Used by report.pl.

use strict;
use warnings;
use PerfStats qw(find mean median quantile ratio show show_ratio);

my $uc = 'full, untracked cache true';

sub against {
	my ($lines, $base, $limit, %want) = @_;
	my $ours = find($lines, %want, peer => 'treewatch') or return ();
	my $theirs = find($lines, %want, peer => $base) or return ();
	my @ratio = ratio($ours, $theirs);
	return (show_ratio(@ratio), $ratio[2] <= $limit);
}

# At 1M files each watcher runs alone, in a group of its own.
sub grouped {
	my ($lines, $size) = @_;
	return find($lines, part => 'query', size => $size, group => 'all') ? 'all' : 'solo-treewatch';
}

sub limit {
	my ($lines, $unit, $limit, $sum, %want) = @_;
	my $ours = find($lines, %want, peer => 'treewatch') or return ();
	my $value = $sum->(@$ours);
	return (show($value, $unit), $value <= $limit);
}

sub largest { my @sorted = sort { $b <=> $a } @_; return $sorted[0] }

sub faster_than {
	my ($lines, $peer, $times, $size) = @_;
	my %want = (part => 'query', size => $size);
	my $ours = find($lines, %want, peer => 'treewatch') or return ();
	my $theirs = find($lines, %want, peer => $peer) or return ();
	my @ratio = ratio($theirs, $ours);
	return (show_ratio(@ratio) . ' times faster', $ratio[2] >= $times);
}

sub start_against {
	my ($lines, $peer, $limit, $size) = @_;
	return against($lines, $peer, $limit, part => 'start', what => 'start until exact', size => $size);
}

# What floor.c measured, against a peer.
sub floor_against {
	my ($lines, $part, $what, $size, $peer) = @_;
	my %want = (part => $part, what => $what, size => $size);
	my $floor = find($lines, %want, peer => 'floor') or return ();
	my $theirs = find($lines, %want, peer => $peer) or return ();
	return (show_ratio(ratio($floor, $theirs)), undef);
}

return (
	['hook as a process, against the static C round trip', '≤ 1.2', sub {
		against($_[0], 'roundtrip-toy', 1.2, part => 'process', what => 'wall-time') }],
	['hook as a process, system calls', '≤ 30', sub {
		limit($_[0], 'count', 30, \&largest, part => 'process', what => 'system-calls') }],
	['hook as a process, major faults', '0', sub {
		limit($_[0], 'count', 0, \&median, part => 'process', what => 'major-faults') }],
	['query in git, 100k, against the do-nothing hook', '≤ 1.15', sub {
		against($_[0], 'null', 1.15, part => 'query', size => '100k') }],
	['query in git, 100k, against Watchman', '≥ 7 times faster', sub {
		faster_than($_[0], 'watchman', 7, '100k') }],
	(map { my $size = $_;
		["git status clean, untracked cache, $size, against the do-nothing hook", '≤ 1.05', sub {
			against($_[0], 'null', 1.05, part => 'matrix', what => 'status, clean',
				variant => $uc, size => $size, group => grouped($_[0], $size)) }]
	} '100k', '1M'),
	['watcher\'s part of a query, request to answer', '≤ 60 µs', sub {
		limit($_[0], 'ns', 60e3, \&median, part => 'watcher', what => 'request-to-answer') }],
	['... its CPU time of that', '', sub {
		limit($_[0], 'ns', 60e3, \&median, part => 'watcher', what => 'cpu-per-query') }],
	['answer of 10,000 paths, in the watcher', '≤ 3 ms', sub {
		limit($_[0], 'ns', 3e6, \&median, part => 'answer', what => 'watcher-cpu') }],
	(map { my $to = $_;
		["... writes of the hook to $to", '≤ 2', sub {
			limit($_[0], 'count', 2, \&largest, part => 'answer', what => "writes to $to") }]
	} qw(pipe file null)),
	['walk of 111,111 directories until exact, against find', '≤ 0.5', sub {
		start_against($_[0], 'find', 0.5, 'dirs') }],
	['... against the built-in daemon\'s start', '≤ 0.1', sub {
		start_against($_[0], 'builtin', 0.1, 'dirs') }],
	['... the kernel\'s part of it alone, against the built-in daemon\'s start', '', sub {
		floor_against($_[0], 'start', 'start until exact', 'dirs', 'builtin') }],
	['... the kernel\'s part of it alone, against find', '', sub {
		floor_against($_[0], 'start', 'start until exact', 'dirs', 'find') }],
	(map { my ($size, $name) = @$_;
		["first git status during the walk, $name, against no monitor", '≤ 1.1', sub {
			against($_[0], 'none', 1.1, part => 'start', what => 'first git status', size => $size) }]
	} ['dirs', '111,111 directories'], ['1M', '1M files']),
	['memory, small repository (RSS)', '< 3 MB', sub {
		limit($_[0], 'kB', 3 * 1024 - 1, \&largest, part => 'memory', what => 'VmRSS', size => '4k') }],
	['memory, 111,111 directories (RSS)', '< 12 MB', sub {
		limit($_[0], 'kB', 12 * 1024 - 1, \&largest, part => 'memory', what => 'VmRSS',
			size => 'dirs', variant => 'after the start') }],
	['memory after a million changed paths (RSS, 111,111 directories)', 'bounded', sub {
		my $ours = find($_[0], part => 'memory', what => 'VmRSS', size => 'dirs', peer => 'treewatch',
			variant => 'after a million changed paths') or return ();
		my $lost = find($_[0], part => 'memory', what => 'resyncs', size => 'dirs');
		return (show($ours->[0], 'kB') . ', resyncs ' . ($lost ? $lost->[0] : '?'), undef) }],
	['idle, wake-ups in a minute', '0', sub {
		limit($_[0], 'count', 0, \&largest, part => 'memory', what => 'wake-ups') }],
	['git checkout, 20,000 files, against not watched', '≤ 1.05', sub {
		against($_[0], 'none', 1.05, part => 'checkout', what => 'real', variant => '20,000 files') }],
	['... overflows', '0', sub {
		limit($_[0], 'count', 0, \&largest, part => 'checkout', what => 'resyncs',
			variant => '20,000 files') }],
	['build of 200,000 ignored files: overflows', '0', sub {
		limit($_[0], 'count', 0, \&largest, part => 'build', what => 'resyncs') }],
	['... watcher\'s CPU against the writers\'', '< 10 %', sub {
		limit($_[0], 'percent', 10, \&median, part => 'build', what => 'watcher-share') }],
	['... CPU of reading the events and one look at each file alone', '', sub {
		my $floor = find($_[0], part => 'build', what => 'watcher-share', peer => 'floor') or return ();
		return (show(median(@$floor), 'percent'), undef) }],
	['... wrong statuses afterwards', '0', sub {
		limit($_[0], 'count', 0, \&largest, part => 'build', what => 'wrong status') }],
	['64 clients x 200 queries: failures', '0', sub {
		limit($_[0], 'count', 0, \&largest, part => 'clients', what => 'failures') }],
	['... 99 % within', '≤ 10 ms', sub {
		limit($_[0], 'ns', 10e6, \&median, part => 'clients', what => '99%') }],
	['query against tree size, largest tree against 1k', 'the same', sub {
		my ($lines) = @_;
		my $small = find($lines, part => 'size', what => 'request-to-answer', size => '1k') or return ();
		my $large = find($lines, part => 'size', what => 'request-to-answer', size => '1M')
			|| find($lines, part => 'size', what => 'request-to-answer', size => 'dirs') or return ();
		my @ratio = ratio($large, $small);
		return (show_ratio(@ratio), $ratio[2] <= 1.1) }],
);
