#!/usr/bin/perl
# One picture of a run: picture.pl RESULTS-DIRECTORY writes ratios.svg there. git status on
# a clean tree, untracked cache on, by size and peer: its time as a ratio to git without a
# monitor, side by side in the same run. Shorter is better; the line is "no monitor".

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PerfStats qw(load ratio median show);

my ($dir) = @ARGV;
my ($machine, $lines) = load($dir);
my %colour = (null => '#9aa0a6', watchman => '#d08770', builtin => '#5e81ac', treewatch => '#4c9a5b');
my %name = (null => 'hook that does nothing', watchman => 'Watchman, sample hook',
	builtin => "git's built-in daemon", treewatch => 'treewatch');
my @peers = qw(watchman builtin null treewatch);

# size -> peer -> [ratio of means, error, ratio of medians, median of peer, median of none]
my (%bars, @sizes);
for my $line (@$lines) {
	next unless $line->{part} eq 'matrix' && $line->{what} eq 'status, clean'
		&& $line->{variant} eq 'full, untracked cache true' && $colour{ $line->{peer} };
	my ($base) = grep { $_->{part} eq 'matrix' && $_->{what} eq $line->{what} && $_->{peer} eq 'none'
		&& $_->{variant} eq $line->{variant} && $_->{size} eq $line->{size}
		&& $_->{group} eq $line->{group} } @$lines;
	next unless $base;
	push @sizes, $line->{size} unless grep { $_ eq $line->{size} } @sizes;
	# "null" stands in several groups at 1M files; the one beside treewatch is shown.
	next if $line->{peer} eq 'null' && $line->{group} !~ /^(all|solo-treewatch)$/;
	$bars{ $line->{size} }{ $line->{peer} } = [
		ratio($line->{samples}, $base->{samples}),
		median(@{ $line->{samples} }), median(@{ $base->{samples} }),
	];
}
exit 0 unless @sizes;

my ($left, $bar, $step, $width, $right) = (190, 15, 19, 440, 130);
my $top = 58;
my $most = 1.1;
for my $size (@sizes) {
	for my $entry (values %{ $bars{$size} }) {
		$most = $entry->[2] * 1.05 if $entry->[2] * 1.05 > $most;
	}
}
my $height = $top + 40;
$height += 26 + $step * @peers for @sizes;
my $total = $left + $width + $right;
my @svg = (
	qq(<svg xmlns="http://www.w3.org/2000/svg" width="$total" height="$height" viewBox="0 0 $total $height" font-family="sans-serif" font-size="12">),
	qq(<rect width="$total" height="$height" fill="#ffffff"/>),
	qq(<text x="16" y="24" font-size="15" font-weight="bold">git status against git without a monitor (= 1)</text>),
	qq(<text x="16" y="42" fill="#555555">clean tree, untracked cache on, warm cache; shorter is better; $machine->{cores} cores, $machine->{date}</text>),
);
my $y = $top;
for my $size (@sizes) {
	my ($any) = values %{ $bars{$size} };
	push @svg, sprintf '<text x="16" y="%d" font-weight="bold">%s files</text><text x="%d" y="%d" fill="#555555">no monitor: %s</text>',
		$y + 15, $size, $left, $y + 15, show($any->[4], 's');
	$y += 22;
	for my $peer (@peers) {
		my $entry = $bars{$size}{$peer};
		push @svg, sprintf '<text x="%d" y="%d" text-anchor="end">%s</text>', $left - 8, $y + 12, $name{$peer};
		if ($entry) {
			my $long = $entry->[2] / $most * $width;
			push @svg, sprintf '<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>',
				$left, $y, $long, $bar, $colour{$peer};
			push @svg, sprintf '<text x="%.1f" y="%d">%.2f (%s)</text>',
				$left + $long + 6, $y + 12, $entry->[2], show($entry->[3], 's');
		} else {
			push @svg, sprintf '<text x="%d" y="%d" fill="#999999">not measured</text>', $left + 4, $y + 12;
		}
		$y += $step;
	}
	$y += 4;
}
my $one = $left + $width / $most;
push @svg, sprintf '<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#333333" stroke-dasharray="4 3"/>',
	$one, $top, $one, $y;
push @svg, sprintf '<text x="%.1f" y="%d" text-anchor="middle" fill="#333333">1 = no monitor</text>', $one, $y + 16;
push @svg, '</svg>';
open my $out, '>', "$dir/ratios.svg" or die "picture.pl: $!\n";
print $out "$_\n" for @svg;
close $out or die;
