#!/usr/bin/perl
# Makes the tables of a run: report.pl RESULTS-DIRECTORY writes table.md there, from
# machine.json and samples.jsonl, and from the head of each part, which says why it is
# fair and what it does not show.
#
# Mean, deviation and range as git's developers post them; the ratio's error is that of
# the two deviations together (first order, as hyperfine has it).

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use PerfStats qw(load groups_of mean deviation median quantile ratio show show_ratio);

my ($dir) = @ARGV;
my ($machine, $lines) = load($dir);
my @out;

sub say_line { push @out, join('', @_) }

# ---- the head

my $v = $machine->{versions};
say_line "# Results of $machine->{date}";
say_line '';
say_line "$machine->{kernel}, $machine->{machine}, $machine->{cores} cores",
	$machine->{cpu} ? " ($machine->{cpu})" : '', ", $machine->{memory_gb} GB, ",
	"$machine->{file_system}, max_user_watches $machine->{max_user_watches}, ",
	"load $machine->{load_at_start} at the start. PERF_SIZE=$machine->{size}.";
say_line '';
say_line join(q{; }, map { my $text = $v->{$_}; $text =~ /\Q$_\E/i ? $text : "$_ $text" }
	grep { $v->{$_} } sort keys %$v), '.';
if (@{ $machine->{skipped} }) {
	say_line '';
	say_line "Not there, so skipped: @{ $machine->{skipped} }.";
}
say_line '';
say_line 'Written by t/perf/report.pl from samples.jsonl; hyperfine\'s own JSON is in raw/.';

# ---- the figures

my @figures = do "$FindBin::Bin/figures.pl";
die "report.pl: figures.pl: $@ $!\n" if @figures < 2;
say_line '';
say_line '## The figures';
say_line '';
say_line '| what | wanted | measured | |';
say_line '|---|---|---|---|';
for my $figure (@figures) {
	my ($what, $wanted, $code) = @$figure;
	my ($text, $good) = $code->($lines);
	$text = 'not measured' unless defined $text;
	my $verdict = !defined $good ? '' : $good ? 'reached' : '**missed**';
	say_line "| $what | $wanted | $text | $verdict |";
}

# ---- part by part

my %seen;
for my $part (grep { !$seen{$_}++ } map { $_->{part} } @$lines) {
	say_line '';
	say_line "## $part";
	my ($file) = glob "$FindBin::Bin/[0-9][0-9]-$part.sh";
	say_line '', map { "\n$_" } head_of($file) if $file;
	my @mine = grep { $_->{part} eq $part } @$lines;
	if ($part =~ /^(process|checkout|build|memory)$/) {
		pivot(@mine);
		next;
	}
	for my $group (groups_of(@mine)) {
		my $first = $group->[0];
		table($group, "$first->{size}: $first->{what} ($first->{variant})" .
			($first->{group} ne 'all' ? ", $first->{group}" : ''));
	}
}

open my $file, '>', "$dir/table.md" or die "report.pl: $!\n";
print $file "$_\n" for @out;
close $file or die;

# The head comment of a part, as paragraphs.
sub head_of {
	my ($path) = @_;
	open my $in, '<', $path or return ();
	my @text;
	while (my $line = <$in>) {
		next if $line =~ /^# shellcheck/;
		last unless $line =~ s/^# ?//;
		chomp $line;
		push @text, '' if $line =~ /^(Fair|Not shown):/;
		push @text, $line;
	}
	return @text;
}

sub table {
	my ($group, $title) = @_;
	my @refs = grep { my $r = $_; grep { $_->{peer} eq $r } @$group }
		qw(none null find roundtrip-toy toy);
	@refs = () if $group->[0]{unit} =~ /^(count|percent)$/ || @$group == 1;
	say_line '';
	say_line "**$title**";
	say_line '';
	say_line '| | mean ± σ | min … max | median | runs |', map { " × $_ |" } @refs;
	say_line '|---|---|---|---|---|', '---|' x @refs;
	for my $row (@$group) {
		my @s = @{ $row->{samples} };
		my $unit = $row->{unit};
		my @sorted = sort { $a <=> $b } @s;
		my $line = "| $row->{peer} | " . show(mean(@s), $unit) .
			(@s > 1 ? ' ± ' . show(deviation(@s), $unit) : '') .
			' | ' . (@s > 1 ? show($sorted[0], $unit) . ' … ' . show($sorted[-1], $unit) : '') .
			' | ' . show(median(@s), $unit) . ' | ' . scalar(@s) . ' |';
		for my $ref (@refs) {
			my ($base) = grep { $_->{peer} eq $ref } @$group;
			$line .= $base == $row ? ' 1 |' : ' ' . show_ratio(ratio(\@s, $base->{samples})) . ' |';
		}
		say_line $line;
	}
}

# Parts that measure many things of each peer: one line for a peer, a column for a thing,
# and the ratio of the time that counts.
sub pivot {
	my %seen;
	for my $key (grep { !$seen{$_}++ } map { "$_->{size}: $_->{variant}" } @_) {
		my @rows = grep { "$_->{size}: $_->{variant}" eq $key } @_;
		my (%what, %peer);
		my @whats = grep { !$what{$_}++ } map { $_->{what} } @rows;
		my @peers = grep { !$peer{$_}++ } map { $_->{peer} } @rows;
		my ($time) = grep { /^(real|wall-time|writers, real)$/ } @whats;
		my ($ref) = grep { my $r = $_; grep { $_ eq $r } @peers } qw(none roundtrip-toy);
		undef $time unless $ref;
		say_line '';
		say_line "**$key**";
		say_line '';
		say_line '| | ', join(' | ', @whats), ' |', $time ? " $time × $ref |" : '';
		say_line '|---|', '---|' x @whats, $time ? '---|' : '';
		for my $peer (@peers) {
			my @cells;
			for my $what (@whats) {
				my ($cell) = grep { $_->{peer} eq $peer && $_->{what} eq $what } @rows;
				my @s = $cell ? @{ $cell->{samples} } : ();
				push @cells, !@s ? '' : show(mean(@s), $cell->{unit}) .
					(@s > 1 ? ' ± ' . show(deviation(@s), $cell->{unit}) : '');
			}
			if ($time) {
				my ($one) = grep { $_->{peer} eq $peer && $_->{what} eq $time } @rows;
				my ($base) = grep { $_->{peer} eq $ref && $_->{what} eq $time } @rows;
				# What is no worker's row ("floor") has no time of theirs.
				push @cells, !$one ? '' : $one == $base ? '1'
					: show_ratio(ratio($one->{samples}, $base->{samples}));
			}
			say_line "| $peer | ", join(' | ', @cells), ' |';
		}
	}
}
