# Reading a run's samples, and the few numbers made of them.
package PerfStats;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;

our @EXPORT_OK = qw(load groups_of find mean deviation median quantile ratio show show_ratio);

# The machine and the measurements of a run; samples of the same thing are joined, in the
# order in which each thing came first.
sub load {
	my ($dir) = @_;
	my $json = JSON::PP->new;
	local $/;
	open my $in, '<', "$dir/machine.json" or die "$dir/machine.json: $!\n";
	my $machine = $json->decode(<$in>);
	$/ = "\n";
	open $in, '<', "$dir/samples.jsonl" or die "$dir/samples.jsonl: $!\n";
	my (%by_key, @lines);
	while (my $text = <$in>) {
		my $line = $json->decode($text);
		my $key = join "\0", map { $line->{$_} || '' } qw(part what variant group size peer);
		if ($by_key{$key}) {
			push @{ $by_key{$key}{samples} }, @{ $line->{samples} };
		} else {
			$by_key{$key} = $line;
			push @lines, $line;
		}
	}
	return ($machine, \@lines);
}

# Measurements that stand in one table: all the same but for the peer.
sub groups_of {
	my (%group, @order);
	for my $line (@_) {
		my $key = join "\0", map { $line->{$_} || '' } qw(part what variant group size);
		push @order, $key unless $group{$key};
		push @{ $group{$key} }, $line;
	}
	return map { $group{$_} } @order;
}

# The samples of the one measurement with these fields, or undef.
sub find {
	my ($lines, %want) = @_;
	for my $line (@$lines) {
		return $line->{samples} unless grep { ($line->{$_} || '') ne $want{$_} } keys %want;
	}
	return undef;
}

sub mean {
	my $sum = 0;
	$sum += $_ for @_;
	return $sum / @_;
}

sub deviation {
	return 0 if @_ < 2;
	my $mean = mean(@_);
	my $sum = 0;
	$sum += ($_ - $mean) ** 2 for @_;
	return sqrt($sum / (@_ - 1));
}

sub quantile {
	my ($q, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;
	my $at = $q * (@sorted - 1);
	my $low = int $at;
	my $high = $low + 1 < @sorted ? $low + 1 : $low;
	return $sorted[$low] + ($at - $low) * ($sorted[$high] - $sorted[$low]);
}

sub median { return quantile(0.5, @_) }

# Ratio of the means, its error, and the ratio of the medians.
sub ratio {
	my ($one, $base) = @_;
	my ($a, $b) = (mean(@$one), mean(@$base));
	return (0, 0, 0) unless $a && $b;
	my $error = $a / $b * sqrt((deviation(@$one) / $a) ** 2 + (deviation(@$base) / $b) ** 2);
	my $median = median(@$base) ? median(@$one) / median(@$base) : 0;
	return ($a / $b, $error, $median);
}

sub show_ratio {
	my ($ratio, $error, $median) = @_;
	return sprintf '%.2f ± %.2f (medians %.2f)', $ratio, $error, $median;
}

# A number with its unit, with as many digits as are worth reading.
sub show {
	my ($value, $unit) = @_;
	my %seconds = (s => 1, ns => 1e-9, us => 1e-6);
	if (my $factor = $seconds{$unit}) {
		$value *= $factor;
		return digits($value) . ' s' if $value >= 1;
		return digits($value * 1e3) . ' ms' if $value >= 1e-3;
		return '0' if $value == 0;
		return digits($value * 1e6) . ' µs';
	}
	return digits($value / 1024) . ' MB' if $unit eq 'kB';
	return digits($value) . ' %' if $unit eq 'percent';
	return $value == int $value ? sprintf('%d', $value) : digits($value);
}

sub digits {
	my ($value) = @_;
	return sprintf($value >= 100 ? '%.0f' : $value >= 10 ? '%.1f' : '%.2f', $value);
}

1;
